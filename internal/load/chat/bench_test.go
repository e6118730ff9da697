package chat

import "testing"

func BenchmarkParse(b *testing.B) {
	data := []byte(`{"id":"chatcmpl-c2adb740-0000-0000-0000-000000000000","choices":[{"index":0,"delta":{"content":" w1482","role":"assistant"},"finish_reason":null,"logprobs":null}],"created":1794710331,"model":"tiny","service_tier":null,"system_fingerprint":null,"object":"chat.completion.chunk","usage":null}`)
	b.ReportAllocs()
	var c Chunk
	for b.Loop() {
		if err := Parse(data, &c); err != nil || !c.Content {
			b.Fatal(err, c)
		}
	}
}

func BenchmarkReader(b *testing.B) {
	data := []byte(`{"id":"chatcmpl-c2adb740-0000-0000-0000-000000000000","choices":[{"index":0,"delta":{"content":" w1482","role":"assistant"},"finish_reason":null,"logprobs":null}],"created":1794710331,"model":"tiny","service_tier":null,"system_fingerprint":null,"object":"chat.completion.chunk","usage":null}`)
	b.ReportAllocs()
	var c Chunk
	var r Reader
	for b.Loop() {
		if err := r.Parse(data, &c); err != nil || !c.Content {
			b.Fatal(err, c)
		}
	}
}
