#include "input.hpp"

#include <stan/io/dump.hpp>
#include <stan/io/empty_var_context.hpp>
#include <stan/io/json/json_data.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace dais {
namespace {

std::ifstream open_input(const std::string& path) {
  std::ifstream in(path);
  if (!in.good())
    throw InputError("the file \"" + path + "\" cannot be read.");
  return in;
}

/** Splits "dir/output.csv" before ".csv"; a dot in a folder's name is not an ending. */
std::size_t ending_position(const std::string& path) {
  const std::size_t slash = path.find_last_of("/\\");
  const std::size_t dot = path.find_last_of('.');
  const bool in_file_name = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  return in_file_name ? dot : path.size();
}

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, ',');)
    fields.push_back(field);
  return fields;
}

/** The columns of the header that hold the model's parameters, in the model's order. */
std::vector<std::size_t> parameter_columns(const std::string& header, const std::string& path,
                                           const stan::model::model_base& model) {
  const std::vector<std::string> columns = split(header);
  std::vector<std::string> names;
  model.constrained_param_names(names, false, false);
  std::vector<std::size_t> positions;
  for (const std::string& name : names) {
    const auto found = std::find(columns.begin(), columns.end(), name);
    if (found == columns.end())
      throw InputError("the file \"" + path + "\" has no column for the parameter " + name + ".");
    positions.push_back(found - columns.begin());
  }
  return positions;
}

Eigen::VectorXd parse_row(const std::string& line, const std::vector<std::size_t>& columns,
                          const std::string& path) {
  const std::vector<std::string> fields = split(line);
  Eigen::VectorXd row(columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] >= fields.size())
      throw InputError("the file \"" + path + "\" has a row shorter than its header.");
    row[i] = std::strtod(fields[columns[i]].c_str(), nullptr);
  }
  return row;
}

}  // namespace

bool ends_with(const std::string& text, const std::string& ending) {
  return text.size() >= ending.size() && text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

std::string with_ending(const std::string& path, const std::string& ending) {
  return path.substr(0, ending_position(path)) + ending;
}

std::string numbered(const std::string& path, int number, const std::string& tag) {
  const std::size_t position = ending_position(path);
  return path.substr(0, position) + tag + std::to_string(number) + path.substr(position);
}

ContextPtr read_context(const std::string& path) {
  if (path.empty())
    return std::make_shared<stan::io::empty_var_context>();
  std::ifstream in = open_input(path);
  try {
    if (ends_with(path, ".json"))
      return std::make_shared<stan::json::json_data>(in);
    return std::make_shared<stan::io::dump>(in);
  } catch (const std::exception& e) {
    throw InputError("the file \"" + path + "\" is not valid: " + e.what());
  }
}

std::vector<ContextPtr> read_chain_contexts(const std::string& path, int num_chains, int first_id) {
  const bool one_each = num_chains > 1 && std::ifstream(numbered(path, first_id)).good();
  if (!one_each)
    return std::vector<ContextPtr>(num_chains, read_context(path));
  std::vector<ContextPtr> contexts;
  for (int chain = 0; chain < num_chains; ++chain)
    contexts.push_back(read_context(numbered(path, first_id + chain)));
  return contexts;
}

Eigen::MatrixXd read_draws(const std::string& path, const stan::model::model_base& model) {
  std::ifstream in = open_input(path);
  std::vector<std::size_t> columns;
  std::vector<Eigen::VectorXd> rows;
  bool in_header = true;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#')
      continue;
    if (in_header)
      columns = parameter_columns(line, path, model);
    else
      rows.push_back(parse_row(line, columns, path));
    in_header = false;
  }
  if (rows.empty())
    throw InputError("the file \"" + path + "\" has no draws.");
  Eigen::MatrixXd draws(rows.size(), columns.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    draws.row(i) = rows[i];
  return draws;
}

Eigen::VectorXd unconstrained(const stan::model::model_base& model, const Eigen::VectorXd& constrained) {
  Eigen::VectorXd point(model.num_params_r());
  std::stringstream messages;
  model.unconstrain_array(constrained, point, &messages);
  return point;
}

Eigen::VectorXd read_point(const std::string& path, const stan::model::model_base& model) {
  if (path.empty())
    throw InputError("the file of the point is not named.");
  if (!ends_with(path, ".json")) {
    const Eigen::MatrixXd draws = read_draws(path, model);
    return unconstrained(model, draws.row(draws.rows() - 1));
  }
  Eigen::VectorXd point(model.num_params_r());
  std::stringstream messages;
  model.transform_inits(*read_context(path), point, &messages);
  return point;
}

}  // namespace dais
