// SPDX-License-Identifier: Apache-2.0
// BERT's two tasks (Devlin et al., NAACL 2019): pieces that were masked, and whether the second segment follows the
// first. A row has the fields ids, segments [T]; places, labels [P] (where the masked pieces stand, ascending, and what
// they were); next [1] (1: the second segment is from elsewhere). Padding is -1 throughout. Two sources: text, masked
// anew in each epoch, and MLPerf's records, masked beforehand.
#pragma once

#include <string>

#include "datasets/dataset.h"

namespace quadrille {

Fields bert_fields(std::int64_t tokens, std::int64_t masked);

// {"source": "bert_text", "directory": "sotu", "train": ["sotu.txt"], "evaluate_every": 10 or "evaluate": [...],
//  "tokenizer": {"kind": "bpe", "vocabulary": 4096} | {"kind": "wordpiece", "file": "bert_vocabulary/vocab.txt"},
//  "masked": 20, "share": 0.15, "seed": 0}
// Files hold one sentence a line and a blank line between documents. Of the documents, numbered from 0 over all files,
// every `evaluate_every`-th (number mod n = n - 1) is for evaluation; or evaluation has files of its own.
Datasets open_bert_text(const Json& config, std::int64_t tokens, const std::string& data_root);

// {"source": "bert_tfrecord", "directory": ..., "train": [...], "evaluate": [...], "vocabulary": 30522}
Datasets open_bert_records(const Json& config, std::int64_t tokens, const std::string& data_root);

}  // namespace quadrille
