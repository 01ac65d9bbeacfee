/* SPDX-License-Identifier: Apache-2.0
 *
 * The hot files are compiled once per instruction set, with FC_TARGET = base, v3 or v4. Each
 * compilation fills one table of entry points; dispatch.c picks a table. */
#ifndef FSTCRF_TARGET_H
#define FSTCRF_TARGET_H

#include "fstcrf.h"

typedef fc_status log_partition_fn(const fc_graph *, const fc_batch *, fc_domain, double *,
                                   double *, int64_t *);
typedef fc_status forward_backward_fn(const fc_graph *, const fc_batch *, fc_domain, const double *,
                                      double *, double *, double *, double *, int64_t *);
typedef void viterbi_fn(const fc_graph *, const fc_batch *, int32_t *, double *, double *);
typedef void max_marginals_fn(const fc_graph *, const fc_batch *, double *, double *);
typedef void maxima_fn(const fc_graph *, const fc_batch *, int32_t *, double *, double *, double *,
                       double *, double *);
typedef void scatter_fn(int64_t, const int64_t *, const int64_t *, const double *, int64_t,
                        const int64_t *, const int32_t *, const float *, const int32_t *, double *);
typedef void gather_fn(int64_t, int64_t, const int64_t *, const int32_t *, const float *,
                       const double *, double *);
typedef void perceptron_fn(const fc_graph *, const fc_batch *, const fc_learner *, int64_t,
                           const int64_t *, const int32_t *, const double *, fc_parameters *,
                           fc_parameters *, double *, int64_t *, double *, double *);
typedef fc_status passive_aggressive_fn(const fc_graph *, const fc_batch *, const fc_learner *,
                                        int64_t, const int64_t *, const int32_t *, const double *,
                                        fc_pa, double, int, fc_parameters *, fc_parameters *,
                                        double *, double *, double *, int64_t *);
typedef fc_status arow_fn(const fc_graph *, const fc_batch *, const fc_learner *, int64_t,
                          const int64_t *, const int32_t *, const double *, double, fc_parameters *,
                          fc_parameters *, double *, double *, int64_t *);
typedef fc_status sgd_fn(const fc_graph *, const fc_batch *, const fc_learner *, int64_t,
                         const int64_t *, const int32_t *, const double *, const double *, double,
                         fc_parameters *, double *, double *, double *, int64_t *);
typedef fc_status propose_fn(const fc_graph *, const fc_batch *, const fc_learner *, int64_t,
                             const int64_t *, const fc_bandit *, fc_descent *, const double *,
                             int32_t *, int32_t *, double *, double *, double *, double *,
                             int64_t *);
typedef void judge_paths_fn(const fc_batch *, const fc_learner *, int64_t, const int64_t *,
                            const fc_bandit *, const fc_judge *, const int32_t *, const int32_t *,
                            double *);
typedef fc_status reinforce_fn(const fc_graph *, const fc_batch *, const fc_learner *, int64_t,
                               const int64_t *, const fc_bandit *, fc_baseline *, fc_descent *,
                               const double *, const double *, const double *, const double *,
                               double *, double *, int64_t *);
typedef fc_status feedback_epoch_fn(const fc_graph *, const fc_batch *, const fc_learner *, int64_t,
                                    const int64_t *, const fc_bandit *, const fc_judge *,
                                    fc_baseline *, fc_descent *, const double *, double *, double *,
                                    double *, double *, int64_t *);
typedef void gibbs_fn(const fc_graph *, const fc_batch *, const fc_labelling *,
                      const fc_agreement *, int64_t, const double *, const uint8_t *,
                      const double *, int32_t *, double *, int32_t *, double *, double *);
typedef void sweep_fn(const fc_graph *, const fc_shard *, const float *, float *, double *,
                      double *, double *, double *, int64_t *, double *);
typedef int64_t sweep_work_fn(const fc_graph *, const fc_shard *);
typedef void spread_fn(const fc_shard *, const fc_layout *, const double *, float *);
typedef void collect_fn(const fc_shard *, const fc_layout *, int64_t, const int64_t *, int64_t,
                        const int64_t *, const float *, double *);
typedef void dots_fn(int64_t, int64_t, int64_t, int64_t, const float *, int64_t, const double *,
                     double *);
typedef void combine_fn(int64_t, int64_t, int64_t, const float *, const double *, double *);
typedef void packed_size_fn(int64_t, int64_t, const int64_t *, int64_t, int64_t *, int64_t *);
typedef void pack_fn(int64_t, int64_t, int64_t, const int64_t *, const double *, int64_t, int32_t *,
                     double *, fc_entry *);
typedef void gather_packed_fn(int64_t, const fc_packed *, const int64_t *, const int32_t *,
                              const float *, int64_t, double *, double *);
typedef void fill_slots_fn(int64_t, const uint64_t *, const int32_t *, int64_t, int64_t, fc_slot *);
typedef void find_rows_fn(int64_t, const int64_t *, int64_t, const int32_t *, int64_t, int64_t,
                          const fc_family *, int32_t *);
typedef double inner_fn(int64_t, const double *, const double *);
typedef int64_t machine_work_fn(const fc_machine *, int64_t);
typedef int64_t queue_size_fn(const fc_machine *, int64_t, int64_t);
typedef void machine_best_fn(const fc_machine *, int64_t, const int64_t *, int32_t *, double *,
                             double *);
typedef void machine_nbest_fn(const fc_machine *, int64_t, const int64_t *, int64_t, int32_t *,
                              double *, int64_t *, double *, double *);
typedef fc_status machine_log_partition_fn(const fc_machine *, int64_t, const int64_t *, fc_domain,
                                           double *, double *, int64_t *);
typedef fc_status machine_marginals_fn(const fc_machine *, int64_t, const int64_t *, fc_domain,
                                       double *, double *const *, double *const *, double *,
                                       double *, int64_t *);
typedef void machine_max_marginals_fn(const fc_machine *, int64_t, const int64_t *, double *const *,
                                      double *);
typedef void machine_sample_fn(const fc_machine *, int64_t, const int64_t *, int64_t,
                               const double *, int32_t *, double *);
typedef fc_status machine_rescore_fn(const fc_machine *, int64_t, const int64_t *, int64_t,
                                     const int64_t *, const int64_t *, const int32_t *,
                                     const double *, int, double *, double *, int64_t *);
typedef fc_status lazy_nbest_fn(const fc_machine *, const fc_conjunction *, int64_t,
                                const int64_t *, int64_t, int64_t, int64_t, int64_t, int,
                                fc_arena *, int32_t *, double *, int64_t *, int64_t *, double *,
                                int64_t *, double *);
typedef fc_status path_scores_fn(const fc_machine *, const fc_conjunction *, int64_t,
                                 const int64_t *, int64_t, const int32_t *, const int64_t *,
                                 uint64_t *, double *, double *);
typedef void machine_dead_fn(const fc_machine *, int64_t, const int64_t *, int64_t *, double *);

typedef struct {
    log_partition_fn *log_partition;
    forward_backward_fn *forward_backward;
    viterbi_fn *viterbi;
    max_marginals_fn *max_marginals;
    maxima_fn *maxima;
    gather_fn *gather;
    scatter_fn *scatter;
    perceptron_fn *perceptron;
    passive_aggressive_fn *passive_aggressive;
    arow_fn *arow;
    sgd_fn *sgd;
    propose_fn *propose;
    judge_paths_fn *judge_paths;
    reinforce_fn *reinforce;
    feedback_epoch_fn *feedback_epoch;
    gibbs_fn *gibbs;
    sweep_fn *sweep;
    sweep_work_fn *sweep_work;
    spread_fn *spread;
    collect_fn *collect;
    dots_fn *dots;
    combine_fn *combine;
    packed_size_fn *packed_size;
    pack_fn *pack;
    gather_packed_fn *gather_packed;
    fill_slots_fn *fill_slots;
    find_rows_fn *find_rows;
    inner_fn *inner;
    machine_work_fn *machine_work;
    queue_size_fn *queue_size;
    machine_best_fn *machine_best;
    machine_nbest_fn *machine_nbest;
    machine_log_partition_fn *machine_log_partition;
    machine_marginals_fn *machine_marginals;
    machine_max_marginals_fn *machine_max_marginals;
    machine_sample_fn *machine_sample;
    machine_dead_fn *machine_dead;
    machine_rescore_fn *machine_rescore;
    lazy_nbest_fn *lazy_nbest;
    path_scores_fn *path_scores;
} fc_table;

#define FC_JOIN2(a, b) a##_##b
#define FC_JOIN(a, b) FC_JOIN2(a, b)
#define FC_NAME(name) FC_JOIN(name, FC_TARGET) /* fc_viterbi -> fc_viterbi_v4 */

#ifdef FC_TARGET /* a hot file: its entry points and its table */
log_partition_fn FC_NAME(fc_log_partition);
forward_backward_fn FC_NAME(fc_forward_backward);
viterbi_fn FC_NAME(fc_viterbi);
max_marginals_fn FC_NAME(fc_max_marginals);
maxima_fn FC_NAME(fc_maxima);
gather_fn FC_NAME(fc_gather);
scatter_fn FC_NAME(fc_scatter);
perceptron_fn FC_NAME(fc_perceptron);
passive_aggressive_fn FC_NAME(fc_passive_aggressive);
arow_fn FC_NAME(fc_arow);
sgd_fn FC_NAME(fc_sgd);
propose_fn FC_NAME(fc_propose);
judge_paths_fn FC_NAME(fc_judge_paths);
reinforce_fn FC_NAME(fc_reinforce);
feedback_epoch_fn FC_NAME(fc_feedback_epoch);
gibbs_fn FC_NAME(fc_gibbs);
sweep_fn FC_NAME(fc_sweep);
sweep_work_fn FC_NAME(fc_sweep_work);
spread_fn FC_NAME(fc_spread);
collect_fn FC_NAME(fc_collect);
dots_fn FC_NAME(fc_dots);
combine_fn FC_NAME(fc_combine);
packed_size_fn FC_NAME(fc_packed_size);
pack_fn FC_NAME(fc_pack);
gather_packed_fn FC_NAME(fc_gather_packed);
fill_slots_fn FC_NAME(fc_fill_slots);
find_rows_fn FC_NAME(fc_find_rows);
inner_fn FC_NAME(fc_inner);
machine_work_fn FC_NAME(fc_machine_work);
queue_size_fn FC_NAME(fc_queue_size);
machine_best_fn FC_NAME(fc_machine_best);
machine_nbest_fn FC_NAME(fc_machine_nbest);
machine_log_partition_fn FC_NAME(fc_machine_log_partition);
machine_marginals_fn FC_NAME(fc_machine_marginals);
machine_max_marginals_fn FC_NAME(fc_machine_max_marginals);
machine_sample_fn FC_NAME(fc_machine_sample);
machine_dead_fn FC_NAME(fc_machine_dead);
machine_rescore_fn FC_NAME(fc_machine_rescore);
lazy_nbest_fn FC_NAME(fc_lazy_nbest);
path_scores_fn FC_NAME(fc_path_scores);
extern const fc_table FC_NAME(fc_table);
#endif

#endif
