#ifndef DAIS_STAN_CMDSTAN_OUTPUT_HPP
#define DAIS_STAN_CMDSTAN_OUTPUT_HPP

#include "arguments.hpp"

#include <stan/callbacks/json_writer.hpp>
#include <stan/callbacks/unique_stream_writer.hpp>
#include <stan/model/model_header.hpp>

#include <fstream>
#include <string>

namespace dais {

using CsvWriter = stan::callbacks::unique_stream_writer<std::ofstream>;
using JsonWriter = stan::callbacks::json_writer<std::ofstream>;

/** Opens the output files of a run; each Stan CSV file starts with the settings it was made with. */
class Output {
 public:
  Output(const Argument& root, const stan::model::model_base& model);

  /** The draws' file of one chain; numbered by the chain's id where there are several. */
  CsvWriter csv(int id, bool several) const;
  /** The file of the sampler's internal state, or a writer of nothing where none was asked for. */
  CsvWriter diagnostic(int id, bool several) const;
  /** A CSV file at a path of its own, with the same head. */
  CsvWriter csv_at(const std::string& path, int id) const;
  /** A JSON file at `path`, or a writer of nothing if not `wanted`. */
  JsonWriter json_at(const std::string& path, bool wanted) const;
  /** The path named by output file=..., before any numbering. */
  const std::string& path() const { return path_; }

 private:
  const Argument& root_;
  const stan::model::model_base& model_;
  std::string path_;
};

/** Writes the versions and the whole tree of settings, line by line. */
void write_settings(const Argument& root, const stan::model::model_base& model,
                    const std::function<void(const std::string&)>& write_line);

/** Writes the timings of the program's profile blocks, if it has any. */
void write_profile(const std::string& path, const stan::math::profile_map& profile);

}  // namespace dais

#endif
