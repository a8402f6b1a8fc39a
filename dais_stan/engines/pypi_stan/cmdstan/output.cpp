#include "output.hpp"

#include "input.hpp"

#include <stan/version.hpp>

#include <ctime>
#include <iomanip>
#include <memory>
#include <sstream>

namespace dais {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", std::gmtime(&now));
  return text;
}

std::unique_ptr<std::ofstream> open_output(const std::string& path, int significant_figures) {
  auto out = std::make_unique<std::ofstream>(path);
  if (!out->good())
    throw InputError("the output file \"" + path + "\" cannot be written.");
  if (significant_figures > 0)
    *out << std::setprecision(significant_figures);
  return out;
}

int significant_figures(const Argument& root) { return root["output"]["sig_figs"].integer(); }

}  // namespace

Output::Output(const Argument& root, const stan::model::model_base& model)
    : root_(root), model_(model), path_(root["output"]["file"].value) {}

CsvWriter Output::csv(int id, bool several) const { return csv_at(several ? numbered(path_, id) : path_, id); }

CsvWriter Output::diagnostic(int id, bool several) const {
  const std::string& path = root_["output"]["diagnostic_file"].value;
  if (path.empty())
    return CsvWriter(nullptr, "# ");
  return csv_at(several ? numbered(path, id) : path, id);
}

CsvWriter Output::csv_at(const std::string& path, int id) const {
  Argument settings = root_;
  for (Argument& member : settings.children)
    if (member.name == "id" && id != member.integer())
      member.set(std::to_string(id));
  CsvWriter writer(open_output(path, significant_figures(root_)), "# ");
  write_settings(settings, model_, [&writer](const std::string& line) { writer(line); });
  return writer;
}

JsonWriter Output::json_at(const std::string& path, bool wanted) const {
  return JsonWriter(wanted ? open_output(path, significant_figures(root_)) : nullptr);
}

void write_settings(const Argument& root, const stan::model::model_base& model,
                    const std::function<void(const std::string&)>& write_line) {
  write_line("stan_version_major = " + stan::MAJOR_VERSION);
  write_line("stan_version_minor = " + stan::MINOR_VERSION);
  write_line("stan_version_patch = " + stan::PATCH_VERSION);
  write_line("model = " + model.model_name());
  write_line("start_datetime = " + utc_now());
  print_settings(root, write_line);
  for (const std::string& line : model.model_compile_info())
    write_line(line);
}

void write_profile(const std::string& path, const stan::math::profile_map& profile) {
  if (profile.empty())
    return;
  const std::unique_ptr<std::ofstream> out = open_output(path, 0);
  *out << "name,thread_id,total_time,forward_time,reverse_time,chain_stack,no_chain_stack,"
          "autodiff_calls,no_autodiff_calls\n";
  for (const auto& entry : profile) {
    const auto& times = entry.second;
    *out << entry.first.first << ",0x" << std::hex << entry.first.second << std::dec << ','
         << times.get_fwd_time() + times.get_rev_time() << ',' << times.get_fwd_time() << ','
         << times.get_rev_time() << ',' << times.get_chain_stack_used() << ','
         << times.get_nochain_stack_used() << ',' << times.get_num_rev_passes() << ','
         << times.get_num_no_AD_fwd_passes() << '\n';
  }
}

}  // namespace dais
