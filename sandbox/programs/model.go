package programs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The mocker says tokens 1000 to 1999, whatever the model.
const (
	leastVocabulary = 2000
	vocabulary      = 16000
)

// writeModel makes a model without weights: a tokenizer to which a word is a token, and
// what a runtime wants to know beside it. Its words are those of AIPerf's own corpus,
// so that the prompts which AIPerf cuts from that differ.
func writeModel(venv, dir string) error {
	corpora, err := filepath.Glob(filepath.Join(venv, "lib/python3*/site-packages/aiperf/dataset/generator/assets/shakespeare.txt"))
	if err != nil || len(corpora) != 1 {
		return fmt.Errorf("AIPerf's corpus in %s: %q, %v", venv, corpora, err)
	}
	text, err := os.ReadFile(corpora[0])
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range modelFiles(string(text)) {
		data, err := json.Marshal(content)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// modelFiles are the files of a model whose vocabulary is the commonest words of a text.
func modelFiles(text string) map[string]any {
	often := map[string]int{}
	for word := range strings.FieldsSeq(text) {
		often[word]++
	}
	words := slices.SortedFunc(maps.Keys(often), func(a, b string) int {
		return cmp.Or(cmp.Compare(often[b], often[a]), strings.Compare(a, b))
	})
	type object = map[string]any
	ids, added := map[string]int{}, []object{}
	for _, word := range []string{"<unk>", "<s>", "</s>", "<pad>", "<|system|>", "<|user|>", "<|assistant|>"} {
		added = append(added, object{"id": len(ids), "content": word, "special": true,
			"single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
		ids[word] = len(ids)
	}
	for _, word := range words {
		if _, known := ids[word]; !known && len(ids) < vocabulary {
			ids[word] = len(ids)
		}
	}
	for i := 0; len(ids) < leastVocabulary; i++ { // a short text: the mocker's tokens need words all the same
		ids[fmt.Sprintf("w%04d", i)] = len(ids)
	}
	special := object{"bos_token_id": ids["<s>"], "eos_token_id": ids["</s>"], "pad_token_id": ids["<pad>"]}
	config := maps.Clone(special)
	maps.Copy(config, object{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "vocab_size": len(ids),
		"max_position_embeddings": 32768, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
		"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16,
	})
	return map[string]any{
		"config.json":            config,
		"generation_config.json": special,
		"tokenizer_config.json": object{
			"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 32768,
			"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>",
			"chat_template": "{% for message in messages %}<|{{ message.role }}|> {{ message.content }} {% endfor %}" +
				"{% if add_generation_prompt %}<|assistant|>{% endif %}",
		},
		"tokenizer.json": object{
			"version": "1.0", "added_tokens": added,
			"pre_tokenizer": object{"type": "WhitespaceSplit"},
			"model":         object{"type": "WordLevel", "vocab": ids, "unk_token": "<unk>"},
		},
	}
}
