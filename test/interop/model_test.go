//go:build linux

package interop_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	modelName = "tiny"

	// The mocker says tokens 1000 to 1999, whatever the model.
	leastVocabulary = 2000
	vocabulary      = 16000
)

// writeModel makes a model without weights: a tokenizer to which a word is a
// token, and what a runtime wants to know beside it. Its words are those of
// AIPerf's own corpus, so that the prompts which AIPerf cuts from that differ.
func writeModel(t *testing.T, dir string) {
	t.Helper()
	corpora, err := filepath.Glob(filepath.Join(venv, "lib/python3*/site-packages/aiperf/dataset/generator/assets/shakespeare.txt"))
	if err != nil || len(corpora) != 1 {
		t.Fatalf("AIPerf's corpus: %q, %v", corpora, err)
	}
	text, err := os.ReadFile(corpora[0])
	if err != nil {
		t.Fatal(err)
	}
	often := map[string]int{}
	for word := range strings.FieldsSeq(string(text)) {
		often[word]++
	}
	words := slices.SortedFunc(maps.Keys(often), func(a, b string) int {
		return cmp.Or(cmp.Compare(often[b], often[a]), strings.Compare(a, b))
	})

	type object = map[string]any
	ids, added := map[string]int{}, []object{}
	for _, word := range []string{"<unk>", "<s>", "</s>", "<pad>", "<|system|>", "<|user|>", "<|assistant|>"} {
		added = append(added, object{
			"id": len(ids), "content": word, "special": true,
			"single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
		})
		ids[word] = len(ids)
	}
	for _, word := range words {
		if _, known := ids[word]; !known && len(ids) < vocabulary {
			ids[word] = len(ids)
		}
	}
	if len(ids) < leastVocabulary {
		t.Fatalf("%d words in %s", len(ids), corpora[0])
	}
	special := object{"bos_token_id": ids["<s>"], "eos_token_id": ids["</s>"], "pad_token_id": ids["<pad>"]}
	config := maps.Clone(special)
	maps.Copy(config, object{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "vocab_size": len(ids),
		"max_position_embeddings": 32768, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
		"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16,
	})
	for name, content := range map[string]object{
		"config.json":            config,
		"generation_config.json": special,
		"tokenizer_config.json": {
			"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 32768,
			"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>",
			"chat_template": "{% for message in messages %}<|{{ message.role }}|> {{ message.content }} {% endfor %}" +
				"{% if add_generation_prompt %}<|assistant|>{% endif %}",
		},
		"tokenizer.json": {
			"version": "1.0", "added_tokens": added,
			"pre_tokenizer": object{"type": "WhitespaceSplit"},
			"model":         object{"type": "WordLevel", "vocab": ids, "unk_token": "<unk>"},
		},
	} {
		data, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
