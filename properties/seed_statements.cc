#include "properties/seed_statements.h"

#include <array>

namespace attest {
namespace {

constexpr std::array kStatements = {
    SeedStatement{
        "projections",
        "Queries, keys and values are three projections of their inputs; keys and values of one "
        "input need not be equal",
        "ClaimsTest.KeysAndValuesOfOneInputNeedNotBeEqual SecondModelTest.BothGiveTheSameLogits"},
    SeedStatement{"projections",
                  "A projection does not read what another wrote: each head has lanes of its own, "
                  "and Wo undoes their order",
                  "ClaimsTest.OrderOfHeadsIsImmaterialIfWoIsPermuted heads.labels_come_back"},
    SeedStatement{"projections",
                  "Grouped queries share a key and value head, and that is all they share",
                  "heads.shared_equals_repeated heads.a_group_alone_equals_itself_among_others"},
    SeedStatement{"scores and softmax", "A row of weights is a distribution over the visible keys",
                  "row_sums.weights_are_a_distribution row_sums.ones_give_one"},
    SeedStatement{
        "scores and softmax", "The output is an average of values and stays within their hull",
        "row_sums.output_lies_in_the_hull_of_visible_values row_sums.a_constant_value_comes_back"},
    SeedStatement{"scores and softmax",
                  "The same number added to all scores of a row changes no output",
                  "masks.a_constant_bias_changes_no_output "
                  "algebra.a_vector_added_to_every_key_shifts_the_lse_alone"},
    SeedStatement{"scores and softmax",
                  "A higher score never has a lower weight, however large the scores",
                  "numerics.a_weight_follows_its_score numerics.huge_scores_stay_right"},
    SeedStatement{
        "scaling",
        "With 1/sqrt(d) the scores of independent unit components have variance 1, without it d",
        "ClaimsTest.VarianceOfScoresIsOneWithTheScaleAndDimWithout"},
    SeedStatement{"scaling", "The scale may as well be multiplied into the queries",
                  "algebra.the_scale_folds_into_q sensitivity.the_scale_matters"},
    SeedStatement{"order",
                  "Attention by itself knows no order: permuted keys and values change nothing",
                  "symmetry.the_order_of_keys_does_not_matter"},
    SeedStatement{"order",
                  "An encoder without positions is permutation-equivariant, a decoder is not",
                  "positions.orderless_encoders_are_equivariant "
                  "ClaimsTest.EncodersWithoutPositionsAreEquivariantAndDecodersAreNot"},
    SeedStatement{"order", "With positions the order of tokens matters", "positions.order_matters"},
    SeedStatement{
        "order", "With rotary positions a score depends on the distance alone",
        "ClaimsTest.WithRopeScoresDependOnDistanceAlone positions.relative_ones_have_no_beginning"},
    SeedStatement{"order", "The sinusoidal table and the slopes of ALiBi are the published ones",
                  "ClaimsTest.SinusoidalTableIsThePublishedOne "
                  "ClaimsTest.SlopesOfAlibiAreThePublishedOnes scores.alibi_equals_explicit_bias"},
    SeedStatement{"causal mask", "No row sees the future: a later key or token moves no bit of it",
                  "causal.future_keys_do_not_matter no_future.later_tokens_do_not_matter "
                  "no_future.prefixes_say_the_same"},
    SeedStatement{"causal mask", "Every row sees all of its past, itself included",
                  "sensitivity.every_visible_key_matters dependency.every_earlier_token_matters"},
    SeedStatement{"causal mask",
                  "Where queries and keys are not as many, the diagonal is a choice that must be "
                  "the declared one",
                  "causal.flag_equals_explicit_triangle causal.chunked_equals_one_shot "
                  "sensitivity.the_diagonal_offset_matters"},
    SeedStatement{
        "teacher forcing",
        "Inputs and targets are shifted by one, within each sequence and never across",
        "teacher_forcing.targets_are_the_next_token teacher_forcing.every_token_is_learnt_once "
        "BatcherTest.TargetsAreTheNextTokensOfTheirDocument"},
    SeedStatement{
        "teacher forcing", "On random tokens an honest loss cannot go below log V",
        "teacher_forcing.loss_cannot_beat_chance TrainingTest.NoHonestBatcherLetsALossBeatChance "
        "TrainingTest.ALeakyBatcherIsFoundByItsLoss"},
    SeedStatement{
        "teacher forcing", "Documents packed into one row know nothing of each other",
        "documents.each_equals_itself_alone BatcherTest.PackedDocumentsKnowNothingOfEachOther"},
    SeedStatement{"padding",
                  "Padding changes nothing: a padded batch is each sequence alone, on either side",
                  "padding.batch_equals_alone padding.sides_agree padding.side_does_not_matter "
                  "padding.removing_padded_keys_changes_nothing"},
    SeedStatement{"padding", "What the padding holds changes no bit, NaN included",
                  "padding.content_does_not_matter padding.padded_keys_do_not_matter "
                  "padding.poison_in_padded_values_does_not_matter"},
    SeedStatement{"padding", "Padding has no weight in the loss",
                  "teacher_forcing.padding_has_no_weight"},
    SeedStatement{"all-masked rows",
                  "A row that sees no key has the promised value, and no NaN that was not promised",
                  "empty_rows.out_is_as_promised empty_rows.lse_is_as_promised "
                  "empty_rows.neighbours_are_untouched"},
    SeedStatement{"all-masked rows", "Its gradient is zero", "gradients.a_blind_row_has_none"},
    SeedStatement{
        "mask conventions",
        "A boolean mask, an additive one, a flag and lengths that hide the same keys give the same",
        "masks.boolean_equals_additive masks.lengths_equal_mask "
        "masks.composition_equals_intersection"},
    SeedStatement{
        "mask conventions",
        "A mask says which keys are seen, not which are hidden, or as it is declared",
        "masks.one_hot_values_read_off_the_visible_set sensitivity.the_boolean_mask_matters"},
    SeedStatement{"mask conventions", "A finite bias hides nothing",
                  "masks.a_finite_bias_hides_nothing"},
    SeedStatement{"dense cost",
                  "Dense attention is quadratic in length and linear in batch, in multiply-adds "
                  "and in memory",
                  "AttentionTest.CostIsCounted MemoryTest.TheDenseFormIsQuadratic"},
    SeedStatement{"exact forms",
                  "Memory-efficient attention is exact: tiles of any size and split keys give the "
                  "dense result, to rounding",
                  "AttentionTest.OnlineEqualsDenseForAnyTile tiling.split_keys_merge_to_the_whole "
                  "tiling.every_seam_sums_to_one"},
    SeedStatement{
        "exact forms", "It costs what the visible pairs cost, in memory that is linear",
        "AttentionTest.CostIsCounted MemoryTest.TheTiledKernelNeedsNoMoreForLongerSequences"},
    SeedStatement{"exact forms", "Its gradient, from out and lse alone, is that of the dense form",
                  "gradients.match_the_reference gradients.a_key_that_no_row_sees_gets_zero"},
    SeedStatement{"other patterns", "A window shows exactly the declared keys beside the diagonal",
                  "window.equals_explicit_band window.keys_outside_do_not_matter"},
    SeedStatement{
        "other patterns", "Prefixes, documents and block masks are masks, nothing more",
        "prefix.equals_explicit_mask documents.equal_explicit_mask blocks.equal_explicit_mask"},
    SeedStatement{"other patterns", "A sink takes its share of the weights and gives no value",
                  "scores.a_sink_takes_its_share scores.a_sink_alone_gives_zero"},
    SeedStatement{"around attention",
                  "Norms, feed-forward, residuals and embeddings are as published, and so are "
                  "their gradients",
                  "SecondModelTest.BothGiveTheSameLogits GradientTest.WholeModels"},
    SeedStatement{
        "around attention", "Batch items do not meet",
        "batch.neighbours_do_not_matter determinism.a_batch_item_alone_equals_itself_in_the_batch"},
    SeedStatement{"around attention", "Dropout is of training alone",
                  "TrainingTest.DropoutIsOfTrainingAlone logits.reruns_are_the_same"},
    SeedStatement{"cache",
                  "Prefill and steps, in any chunks, give what the whole sequence gives at once",
                  "cache.chunks_equal_one_shot cache.decoding_equals_prefill "
                  "cache.any_chunking_equals_prefill"},
    SeedStatement{"cache", "Where the cache lies changes nothing: pages, ring, past",
                  "cache.pages_may_lie_anywhere cache.a_ring_may_begin_anywhere "
                  "cache.past_and_new_keys_equal_all_at_once"},
    SeedStatement{"cache",
                  "Its bytes grow linearly; a new request and another beam see nothing of the last",
                  "cache.bytes_are_linear cache.fresh_requests_see_nothing_of_others "
                  "cache.beams_go_on_from_their_parents"},
    SeedStatement{"explanation",
                  "Weights are no explanation: different weights can give one output",
                  "ExplanationTest.DifferentWeightsGiveOneOutput "
                  "ClaimsTest.DifferentWeightsCanGiveTheSameOutput"},
};

}  // namespace

std::span<const SeedStatement> SeedStatements() {
  return kStatements;
}

}  // namespace attest
