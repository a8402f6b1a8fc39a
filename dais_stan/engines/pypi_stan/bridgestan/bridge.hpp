// The C functions that the bridgestan package calls. Each returns 0, or a nonzero status with a message in
// *error (free it with bs_free_error_msg); no C++ exception leaves them. Points are arrays of doubles: z is
// unconstrained, x constrained and in the order of bs_param_names. All but the constructors may be called
// by several threads at once on the same model, as long as each thread has its own bs_rng.
#ifndef DAIS_STAN_BRIDGE_HPP
#define DAIS_STAN_BRIDGE_HPP

#define BRIDGE_EXPORT extern "C" __attribute__((visibility("default")))

struct bs_model;
struct bs_rng;
using bs_print_callback = void (*)(const char* text, int size);

BRIDGE_EXPORT int bs_major_version;
BRIDGE_EXPORT int bs_minor_version;
BRIDGE_EXPORT int bs_patch_version;

// data: a JSON text, the path of a .json file, or null or empty for no data. Returns null on failure.
BRIDGE_EXPORT bs_model* bs_model_construct(const char* data, unsigned int seed, char** error);
BRIDGE_EXPORT void bs_model_destruct(bs_model* model);
BRIDGE_EXPORT bs_rng* bs_rng_construct(unsigned int seed, char** error);
BRIDGE_EXPORT void bs_rng_destruct(bs_rng* rng);
BRIDGE_EXPORT void bs_free_error_msg(char* error);
// Where the program's print statements go; null means standard output. One setting for the library.
BRIDGE_EXPORT int bs_set_print_callback(bs_print_callback callback, char** error);

BRIDGE_EXPORT const char* bs_name(const bs_model* model);
BRIDGE_EXPORT const char* bs_model_info(const bs_model* model);
BRIDGE_EXPORT const char* bs_param_names(const bs_model* model, bool include_tp, bool include_gq);
BRIDGE_EXPORT const char* bs_param_unc_names(const bs_model* model);
BRIDGE_EXPORT int bs_param_num(const bs_model* model, bool include_tp, bool include_gq);
BRIDGE_EXPORT int bs_param_unc_num(const bs_model* model);

// rng may be null unless include_gq.
BRIDGE_EXPORT int bs_param_constrain(const bs_model* model, bool include_tp, bool include_gq, const double* z,
                                     double* x, bs_rng* rng, char** error);
BRIDGE_EXPORT int bs_param_unconstrain(const bs_model* model, const double* x, double* z, char** error);
BRIDGE_EXPORT int bs_param_unconstrain_json(const bs_model* model, const char* json, double* z, char** error);
// Values missing from json (which may be null) are drawn uniformly in (-radius, radius) on the unconstrained
// scale, until the log density and its gradient are finite.
BRIDGE_EXPORT int bs_param_initialize(const bs_model* model, const char* json, bs_rng* rng, double radius,
                                      int max_tries, bool jacobian, double* z, char** error);

// propto drops the constants; jacobian adds the log Jacobian of the constraining transform.
BRIDGE_EXPORT int bs_log_density(const bs_model* model, bool propto, bool jacobian, const double* z,
                                 double* value, char** error);
BRIDGE_EXPORT int bs_log_density_gradient(const bs_model* model, bool propto, bool jacobian, const double* z,
                                          double* value, double* gradient, char** error);
// hessian: dim x dim, symmetric.
BRIDGE_EXPORT int bs_log_density_hessian(const bs_model* model, bool propto, bool jacobian, const double* z,
                                         double* value, double* gradient, double* hessian, char** error);
BRIDGE_EXPORT int bs_log_density_hessian_vector_product(const bs_model* model, bool propto, bool jacobian,
                                                        const double* z, const double* v, double* value,
                                                        double* product, char** error);

#endif
