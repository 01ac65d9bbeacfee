/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of entry points of the instruction set that this file is compiled for. */

#include "target.h"

const fc_table FC_NAME(fc_table) = {
    .log_partition = FC_NAME(fc_log_partition),
    .forward_backward = FC_NAME(fc_forward_backward),
    .viterbi = FC_NAME(fc_viterbi),
    .max_marginals = FC_NAME(fc_max_marginals),
    .gather = FC_NAME(fc_gather),
    .perceptron = FC_NAME(fc_perceptron),
    .passive_aggressive = FC_NAME(fc_passive_aggressive),
    .arow = FC_NAME(fc_arow),
    .sgd = FC_NAME(fc_sgd),
    .propose = FC_NAME(fc_propose),
    .judge_paths = FC_NAME(fc_judge_paths),
    .reinforce = FC_NAME(fc_reinforce),
    .feedback_epoch = FC_NAME(fc_feedback_epoch),
    .sweep = FC_NAME(fc_sweep),
    .sweep_work = FC_NAME(fc_sweep_work),
    .spread = FC_NAME(fc_spread),
    .collect = FC_NAME(fc_collect),
    .dots = FC_NAME(fc_dots),
    .combine = FC_NAME(fc_combine),
    .packed_size = FC_NAME(fc_packed_size),
    .pack = FC_NAME(fc_pack),
    .gather_packed = FC_NAME(fc_gather_packed),
    .fill_slots = FC_NAME(fc_fill_slots),
    .find_rows = FC_NAME(fc_find_rows),
    .inner = FC_NAME(fc_inner),
    .machine_work = FC_NAME(fc_machine_work),
    .queue_size = FC_NAME(fc_queue_size),
    .machine_best = FC_NAME(fc_machine_best),
    .machine_nbest = FC_NAME(fc_machine_nbest),
    .machine_log_partition = FC_NAME(fc_machine_log_partition),
    .machine_marginals = FC_NAME(fc_machine_marginals),
    .machine_max_marginals = FC_NAME(fc_machine_max_marginals),
    .machine_sample = FC_NAME(fc_machine_sample),
    .machine_dead = FC_NAME(fc_machine_dead),
    .machine_rescore = FC_NAME(fc_machine_rescore),
    .lazy_nbest = FC_NAME(fc_lazy_nbest),
};
