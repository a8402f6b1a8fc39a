#ifndef DAIS_STAN_CMDSTAN_COMMAND_LINE_HPP
#define DAIS_STAN_CMDSTAN_COMMAND_LINE_HPP

#include "arguments.hpp"

namespace dais {

/** CmdStan's command line: its names, nesting, defaults and bounds. */
Argument command_line();

}  // namespace dais

#endif
