#ifndef DAIS_STAN_CMDSTAN_ARGUMENTS_HPP
#define DAIS_STAN_CMDSTAN_ARGUMENTS_HPP

#include <functional>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <vector>

namespace dais {

/** A command line that cannot be obeyed; the message is one sentence. */
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/**
 * A node of the tree of command-line arguments: what may be said and, after parse(), what was said.
 *
 * A value is written `name=value`; a choice is written `name=alternative` and opens the alternative's own
 * arguments; a group is written as its bare name and opens its members.
 */
struct Argument {
  enum class Kind { value, choice, group };

  Kind kind;
  std::string name;
  std::string help;
  std::string value;                        // as it prints: a value's text, or a choice's alternative
  bool is_default = true;
  std::vector<Argument> children;           // a group's members, or a choice's alternatives
  std::function<std::string(const std::string&)> check;  // text as given -> text as it prints; throws

  /** The member called `name` of a group; a programming error if there is none. */
  const Argument& operator[](const std::string& name) const;
  /** The alternative that a choice stands at. */
  const Argument& chosen() const;
  int integer() const;
  double real() const;
  bool flag() const;

  /** Sets a value or a choice from what the user wrote. */
  void set(const std::string& text);
};

/** @name Builders of the tree, with the bounds that the values are checked against. @{ */
Argument integer(std::string name, std::string help, long long initial, long long low, long long high);
Argument positive(std::string name, std::string help, int initial);
Argument natural(std::string name, std::string help, int initial);
Argument real(std::string name, std::string help, double initial, std::string bounds,
              std::function<bool(double)> within);
Argument positive_real(std::string name, std::string help, double initial);
Argument flag(std::string name, std::string help, bool initial);
Argument text(std::string name, std::string help, std::string initial = "");
Argument group(std::string name, std::string help, std::vector<Argument> members);
Argument choice(std::string name, std::string help, std::string initial, std::vector<Argument> alternatives);
/** @} */

/** Reads the words of a command line into the tree. Throws UsageError. */
void parse(Argument& root, const std::vector<std::string>& words);

/** Writes the tree as it stands, one `name = value` line each, with "(Default)" where nothing was said. */
void print_settings(const Argument& root, const std::function<void(const std::string&)>& write_line);

/** Writes what may be said: the node's own arguments or, with `deep`, everything below it too. */
void print_help(const Argument& node, std::ostream& out, bool deep, int depth = 0);

}  // namespace dais

#endif
