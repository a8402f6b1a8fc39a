#ifndef DAIS_STAN_CMDSTAN_INPUT_HPP
#define DAIS_STAN_CMDSTAN_INPUT_HPP

#include <stan/model/model_header.hpp>

#include <memory>
#include <string>
#include <vector>

namespace dais {

using ContextPtr = std::shared_ptr<const stan::io::var_context>;

/** An input file that cannot be read or understood; the message is one sentence. */
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/** Named values of a JSON file (".json") or an R dump file; an empty path holds no values. */
ContextPtr read_context(const std::string& path);

/**
 * One context a chain. With several chains, "init.json" stands for "init_1.json", "init_2.json" ...
 * (numbered from `first_id`) where the first of these exists, and otherwise for one file that all share.
 */
std::vector<ContextPtr> read_chain_contexts(const std::string& path, int num_chains, int first_id);

/** "dir/output.csv" and 3 give "dir/output_3.csv"; `tag` goes in front of the number. */
std::string numbered(const std::string& path, int number, const std::string& tag = "_");
/** "dir/output.csv" and "_metric.json" give "dir/output_metric.json". */
std::string with_ending(const std::string& path, const std::string& ending);
bool ends_with(const std::string& text, const std::string& ending);

/** The model's parameters, row by row, in constrained order, from a Stan CSV file that any method wrote. */
Eigen::MatrixXd read_draws(const std::string& path, const stan::model::model_base& model);

/** One point of the unconstrained space from a draw of the constrained parameters. */
Eigen::VectorXd unconstrained(const stan::model::model_base& model, const Eigen::VectorXd& constrained);

/** One point of the unconstrained space from a JSON file, or from the last draw of a Stan CSV file. */
Eigen::VectorXd read_point(const std::string& path, const stan::model::model_base& model);

}  // namespace dais

#endif
