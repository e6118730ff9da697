//go:build linux

package interop_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The tiny model is a Llama of random weights that real engines load: it says words, and
// never ends by itself. It is the same each time.
const (
	tinyHidden  = 128
	tinyLayers  = 2
	tinyHeads   = 4
	tinyKVHeads = 2
	tinyHeadDim = 32
	tinyContext = 1024

	tinyTemplate = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}"
)

// tinySpecials are <unk>, <s>, </s> and <pad>.
var tinySpecials = []string{"<unk>", "<s>", "</s>", "<pad>"}

// tinyVocabulary is a byte-level BPE: the special tokens, the 256 bytes, and what merges
// make of them. The words are those in this file, each with a space before it; a merge joins
// a word's beginning with its next letter. Most words of a prompt are more than one token, as
// they are to any small vocabulary.
func tinyVocabulary(t *testing.T) (tokens, merges []string) {
	t.Helper()
	source, err := os.ReadFile("tiny_test.go")
	if err != nil {
		t.Fatal(err)
	}
	tokens = slices.Clone(tinySpecials)
	extra := rune(256)
	for b := range rune(256) { // GPT-2's names of bytes: printable ones name themselves
		if b >= '!' && b <= '~' || b >= '¡' && b <= '¬' || b >= '®' {
			tokens = append(tokens, string(b))
		} else {
			tokens = append(tokens, string(extra))
			extra++
		}
	}
	known := map[string]bool{}
	words := strings.FieldsFunc(strings.ToLower(string(source)), func(r rune) bool { return r < 'a' || r > 'z' })
	for _, word := range words {
		for n := range word {
			piece := "Ġ" + word[:n+1]
			if !known[piece] {
				known[piece] = true
				tokens, merges = append(tokens, piece), append(merges, "Ġ"+word[:n]+" "+word[n:n+1])
			}
		}
	}
	return tokens, merges
}

// tensor has its shape row first.
type tensor struct {
	name, gguf string
	shape      []int
	data       []float32
}

// tinyTensors are the weights. What is no word has an output of 0, the words have random
// ones, so that the most likely token is always a word.
func tinyTensors(tokens int) []tensor {
	source := rand.New(rand.NewPCG(7, 7))
	random := func(name, gguf string, scale float64, shape ...int) tensor {
		size := 1
		for _, n := range shape {
			size *= n
		}
		w := tensor{name, gguf, shape, make([]float32, size)}
		for i := range w.data {
			if w.data[i] = 1; len(shape) > 1 {
				w.data[i] = float32(source.NormFloat64() * scale)
			}
		}
		return w
	}
	narrow := 1 / math.Sqrt(tinyHidden)
	all := []tensor{
		random("model.embed_tokens.weight", "token_embd.weight", 1, tokens, tinyHidden),
		random("model.norm.weight", "output_norm.weight", 1, tinyHidden),
	}
	head := random("lm_head.weight", "output.weight", 1, tokens, tinyHidden)
	clear(head.data[:(len(tinySpecials)+256)*tinyHidden])
	all = append(all, head)
	for i := range tinyLayers {
		layer := func(name, gguf string, shape ...int) tensor {
			return random(fmt.Sprintf("model.layers.%d.%s.weight", i, name), fmt.Sprintf("blk.%d.%s.weight", i, gguf), narrow, shape...)
		}
		all = append(all,
			layer("input_layernorm", "attn_norm", tinyHidden), layer("post_attention_layernorm", "ffn_norm", tinyHidden),
			layer("self_attn.q_proj", "attn_q", tinyHeads*tinyHeadDim, tinyHidden),
			layer("self_attn.k_proj", "attn_k", tinyKVHeads*tinyHeadDim, tinyHidden),
			layer("self_attn.v_proj", "attn_v", tinyKVHeads*tinyHeadDim, tinyHidden),
			layer("self_attn.o_proj", "attn_output", tinyHidden, tinyHeads*tinyHeadDim),
			layer("mlp.gate_proj", "ffn_gate", 2*tinyHidden, tinyHidden), layer("mlp.up_proj", "ffn_up", 2*tinyHidden, tinyHidden),
			layer("mlp.down_proj", "ffn_down", tinyHidden, 2*tinyHidden))
	}
	return all
}

// writeTiny writes the tiny model into a folder, in the formats of all engines.
func writeTiny(t *testing.T, dir string) {
	t.Helper()
	tokens, merges := tinyVocabulary(t)
	tensors := tinyTensors(len(tokens))
	writeGGUF(t, filepath.Join(dir, "tiny.gguf"), tokens, merges, tensors)
	writeHuggingFace(t, dir, tokens, merges, tensors)
}

// writeGGUF writes the tiny model as llama.cpp reads it.
func writeGGUF(t *testing.T, path string, tokens, merges []string, tensors []tensor) {
	t.Helper()
	const (
		typeU32, typeF32, typeBool, typeString, typeArray, typeI32 = 4, 6, 7, 8, 9, 5
		normal, control                                            = 1, 3 // types of token
	)
	var b bytes.Buffer
	put := func(values ...any) {
		for _, v := range values {
			if s, ok := v.(string); ok {
				v = []byte(s)
				b.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s))))
			}
			if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	keys := 0
	pair := func(key string, kind uint32, values ...any) {
		put(key, kind)
		put(values...)
		keys++
	}
	list := func(key string, kind uint32, n int, each func(int) any) {
		pair(key, typeArray, kind, uint64(n))
		for i := range n {
			put(each(i))
		}
	}
	pair("general.architecture", typeString, "llama")
	pair("general.name", typeString, modelName)
	for _, c := range []struct {
		key   string
		value uint32
	}{
		{"general.file_type", 0},
		{"general.alignment", 32},
		{"llama.context_length", tinyContext},
		{"llama.embedding_length", tinyHidden},
		{"llama.block_count", tinyLayers},
		{"llama.feed_forward_length", 2 * tinyHidden},
		{"llama.attention.head_count", tinyHeads},
		{"llama.attention.head_count_kv", tinyKVHeads},
		{"llama.attention.key_length", tinyHeadDim},
		{"llama.attention.value_length", tinyHeadDim},
		{"llama.rope.dimension_count", tinyHeadDim},
		{"llama.vocab_size", uint32(len(tokens))},
		{"tokenizer.ggml.unknown_token_id", 0},
		{"tokenizer.ggml.bos_token_id", 1},
		{"tokenizer.ggml.eos_token_id", 2},
		{"tokenizer.ggml.padding_token_id", 3},
	} {
		pair(c.key, typeU32, c.value)
	}
	pair("llama.attention.layer_norm_rms_epsilon", typeF32, float32(1e-5))
	pair("tokenizer.ggml.add_bos_token", typeBool, false)
	pair("tokenizer.ggml.model", typeString, "gpt2")
	pair("tokenizer.ggml.pre", typeString, "gpt-2")
	pair("tokenizer.chat_template", typeString, tinyTemplate)
	list("tokenizer.ggml.tokens", typeString, len(tokens), func(i int) any { return tokens[i] })
	list("tokenizer.ggml.merges", typeString, len(merges), func(i int) any { return merges[i] })
	list("tokenizer.ggml.token_type", typeI32, len(tokens), func(i int) any {
		if i < len(tinySpecials) {
			return int32(control)
		}
		return int32(normal)
	})
	pairs := b
	b = bytes.Buffer{}

	offset := uint64(0)
	for _, w := range tensors {
		put(w.gguf, uint32(len(w.shape)))
		for _, n := range slices.Backward(w.shape) {
			put(uint64(n))
		}
		put(uint32(0), offset) // F32
		offset += uint64(4*len(w.data)+31) &^ 31
	}
	infos := b
	b = bytes.Buffer{}
	put([]byte("GGUF"), uint32(3), uint64(len(tensors)), uint64(keys))
	b.Write(pairs.Bytes())
	b.Write(infos.Bytes())
	pad := func() { b.Write(make([]byte, -b.Len()&31)) }
	pad()
	for _, w := range tensors {
		put(w.data)
		pad()
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// writeHuggingFace writes the tiny model as vLLM reads it.
func writeHuggingFace(t *testing.T, dir string, tokens, merges []string, tensors []tensor) {
	t.Helper()
	type object = map[string]any
	ids, added := map[string]int{}, []object{}
	for i, token := range tokens {
		if ids[token] = i; i < len(tinySpecials) {
			added = append(added, object{
				"id": i, "content": token, "special": true,
				"single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
			})
		}
	}
	special := object{"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3}
	bytelevel := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]object{
		"generation_config.json": special,
		"config.json": {
			"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "vocab_size": len(tokens),
			"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3, "torch_dtype": "float32",
			"max_position_embeddings": tinyContext, "hidden_size": tinyHidden, "intermediate_size": 2 * tinyHidden,
			"num_hidden_layers": tinyLayers, "num_attention_heads": tinyHeads, "num_key_value_heads": tinyKVHeads,
			"head_dim": tinyHeadDim, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": false,
		},
		"tokenizer_config.json": {
			"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": tinyContext, "clean_up_tokenization_spaces": false,
			"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "chat_template": tinyTemplate,
		},
		"tokenizer.json": {
			"version": "1.0", "added_tokens": added, "pre_tokenizer": bytelevel, "decoder": bytelevel,
			"model": object{"type": "BPE", "vocab": ids, "merges": merges},
		},
	} {
		data, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		write(name, data)
	}

	header, offset := object{}, 0
	var data bytes.Buffer
	for _, w := range tensors {
		header[w.name] = object{"dtype": "F32", "shape": w.shape, "data_offsets": []int{offset, offset + 4*len(w.data)}}
		offset += 4 * len(w.data)
		if err := binary.Write(&data, binary.LittleEndian, w.data); err != nil {
			t.Fatal(err)
		}
	}
	names, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	write("model.safetensors", slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(names))), names, data.Bytes()))
}
