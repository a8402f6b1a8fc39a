#include "arguments.hpp"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <ostream>
#include <sstream>
#include <utility>

namespace dais {
namespace {

std::string shortest(double x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

Argument valued(std::string name, std::string help, std::string initial,
                std::function<std::string(const std::string&)> check) {
  return {Argument::Kind::value, std::move(name), std::move(help), std::move(initial), true, {},
          std::move(check)};
}

Argument* find(std::vector<Argument>& among, const std::string& name) {
  for (Argument& candidate : among)
    if (candidate.name == name)
      return &candidate;
  return nullptr;
}

/** The choice among a group's members that has `alternative`, so that the alternative can stand alone. */
Argument* choice_with(Argument& node, const std::string& alternative) {
  for (Argument& member : node.children)
    if (member.kind == Argument::Kind::choice && find(member.children, alternative))
      return &member;
  return nullptr;
}

/** Every way to say `name`, spelled in full, for the message about a misplaced argument. */
void spellings(const Argument& node, const std::string& said, const std::string& name,
               std::vector<std::string>& found) {
  for (const Argument& member : node.children) {
    if (member.name == name)
      found.push_back(said + name);
    if (member.kind == Argument::Kind::group)
      spellings(member, said + member.name + " ", name, found);
    for (const Argument& alternative : member.children)
      if (member.kind == Argument::Kind::choice)
        spellings(alternative, said + member.name + "=" + alternative.name + " ", name, found);
  }
}

[[noreturn]] void throw_unknown(const Argument& root, const std::string& word, const std::string& name) {
  std::vector<std::string> found;
  spellings(root, "", name, found);
  std::string message = "the argument \"" + word + "\" is unknown or out of place";
  for (std::size_t i = 0; i < found.size(); ++i)
    message += (i == 0 ? "; it can be said as \"" : "\" or as \"") + found[i];
  throw UsageError(message + (found.empty() ? "; \"help-all\" lists every argument." : "\"."));
}

/** Sets `target` and leaves it open for the words that follow. */
void apply(Argument& target, bool has_value, const std::string& value, std::vector<Argument*>& open) {
  if (target.kind == Argument::Kind::group) {
    if (has_value)
      throw UsageError("\"" + target.name + "\" takes no value of its own, found \"" + value + "\".");
    open.push_back(&target);
    return;
  }
  if (!has_value)
    throw UsageError("\"" + target.name + "\" needs a value: " + target.name + "=...");
  target.set(value);
  if (target.kind == Argument::Kind::choice)
    open.push_back(find(target.children, target.value));
}

void parse_word(Argument& root, const std::string& word, std::vector<Argument*>& open) {
  const std::size_t equals = word.find('=');
  const bool has_value = equals != std::string::npos;
  const std::string name = word.substr(0, equals);
  const std::string value = has_value ? word.substr(equals + 1) : "";
  // The innermost open group that knows the word takes it; the groups inside it are closed.
  for (std::size_t depth = open.size(); depth-- > 0;) {
    Argument* choice = has_value ? nullptr : choice_with(*open[depth], name);
    Argument* target = find(open[depth]->children, name);
    if (!target && !choice)
      continue;
    open.resize(depth + 1);
    if (target)
      return apply(*target, has_value, value, open);
    return apply(*choice, true, name, open);
  }
  throw_unknown(root, word, name);
}

void print_group(const Argument& node, const std::string& indent,
                 const std::function<void(const std::string&)>& write_line) {
  for (const Argument& member : node.children) {
    if (member.kind == Argument::Kind::group) {
      write_line(indent + member.name);
      print_group(member, indent + "  ", write_line);
      continue;
    }
    write_line(indent + member.name + " = " + member.value + (member.is_default ? " (Default)" : ""));
    if (member.kind == Argument::Kind::choice && !member.chosen().children.empty()) {
      write_line(indent + "  " + member.value);
      print_group(member.chosen(), indent + "    ", write_line);
    }
  }
}

}  // namespace

const Argument& Argument::operator[](const std::string& wanted) const {
  for (const Argument& child : children)
    if (child.name == wanted)
      return child;
  throw std::logic_error("no argument " + wanted + " in " + name);
}

const Argument& Argument::chosen() const { return (*this)[value]; }
int Argument::integer() const { return static_cast<int>(std::stoll(value)); }
double Argument::real() const { return std::strtod(value.c_str(), nullptr); }
bool Argument::flag() const { return value == "true"; }

void Argument::set(const std::string& text) {
  value = check(text);
  is_default = false;
}

Argument integer(std::string name, std::string help, long long initial, long long low, long long high) {
  auto check = [name, low, high](const std::string& text) {
    char* end = nullptr;
    errno = 0;
    const long long number = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end != '\0' || errno == ERANGE || number < low || number > high)
      throw UsageError(name + " must be an integer from " + std::to_string(low) + " to "
                       + std::to_string(high) + ", found \"" + text + "\".");
    return std::to_string(number);
  };
  return valued(std::move(name), std::move(help), std::to_string(initial), check);
}

Argument positive(std::string name, std::string help, int initial) {
  return integer(std::move(name), std::move(help), initial, 1, std::numeric_limits<int>::max());
}

Argument natural(std::string name, std::string help, int initial) {
  return integer(std::move(name), std::move(help), initial, 0, std::numeric_limits<int>::max());
}

Argument real(std::string name, std::string help, double initial, std::string bounds,
              std::function<bool(double)> within) {
  auto check = [name, bounds, within](const std::string& text) {
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !std::isfinite(number) || !within(number))
      throw UsageError(name + " must be a number " + bounds + ", found \"" + text + "\".");
    return text;
  };
  return valued(std::move(name), std::move(help), shortest(initial), check);
}

Argument positive_real(std::string name, std::string help, double initial) {
  return real(std::move(name), std::move(help), initial, "above 0", [](double x) { return x > 0; });
}

Argument flag(std::string name, std::string help, bool initial) {
  auto check = [name](const std::string& text) -> std::string {
    if (text == "1" || text == "true")
      return "true";
    if (text == "0" || text == "false")
      return "false";
    throw UsageError(name + " must be 0, 1, true or false, found \"" + text + "\".");
  };
  return valued(std::move(name), std::move(help), initial ? "true" : "false", check);
}

Argument text(std::string name, std::string help, std::string initial) {
  const auto anything = [](const std::string& text) { return text; };
  return valued(std::move(name), std::move(help), std::move(initial), anything);
}

Argument group(std::string name, std::string help, std::vector<Argument> members) {
  return {Argument::Kind::group, std::move(name), std::move(help), "", true, std::move(members), nullptr};
}

Argument choice(std::string name, std::string help, std::string initial, std::vector<Argument> alternatives) {
  std::string known;
  for (const Argument& alternative : alternatives)
    known += (known.empty() ? "" : ", ") + alternative.name;
  auto check = [name, known](const std::string& text) {
    if ((", " + known + ",").find(", " + text + ",") == std::string::npos)
      throw UsageError(name + " must be one of " + known + ", found \"" + text + "\".");
    return text;
  };
  return {Argument::Kind::choice, std::move(name), std::move(help), std::move(initial), true,
          std::move(alternatives), check};
}

void parse(Argument& root, const std::vector<std::string>& words) {
  std::vector<Argument*> open{&root};
  for (const std::string& word : words)
    parse_word(root, word, open);
}

void print_settings(const Argument& root, const std::function<void(const std::string&)>& write_line) {
  print_group(root, "", write_line);
}

void print_help(const Argument& node, std::ostream& out, bool deep, int depth) {
  for (const Argument& member : node.children) {
    out << std::string(2 * depth + 2, ' ') << member.name;
    if (member.kind != Argument::Kind::group && node.kind != Argument::Kind::choice)
      out << "=" << (member.value.empty() ? "..." : member.value);
    out << "  " << member.help << '\n';
    if (deep || (depth == 0 && member.kind == Argument::Kind::choice))
      print_help(member, out, deep, depth + 1);
  }
}

}  // namespace dais
