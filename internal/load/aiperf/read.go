package aiperf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"aicr/internal/load/metric"
)

// Read reads a profile_export_aiperf.json that AIPerf or aicr wrote. Keys that
// it does not know are skipped; a document without a request count is refused,
// since it is something else.
func Read(r io.Reader) (*Profile, error) {
	p, err := read(r)
	if err != nil {
		return nil, fmt.Errorf("reading an AIPerf profile: %w", err)
	}
	return p, nil
}

func read(r io.Reader) (*Profile, error) {
	dec := json.NewDecoder(r)
	p := &Profile{IsComplete: true}
	err := eachKey(dec, func(key string, value json.RawMessage) error {
		switch key {
		case "schema_version":
			return json.Unmarshal(value, &p.SchemaVersion)
		case "aiperf_version":
			return json.Unmarshal(value, &p.AIPerfVersion)
		case "aicr":
			var own struct{ Version string }
			err := json.Unmarshal(value, &own)
			p.AICRVersion = own.Version
			return err
		case "benchmark_id":
			return json.Unmarshal(value, &p.BenchmarkID)
		case "input_config":
			p.InputConfig = value
		case "run_info":
			var info struct {
				Seed    *uint64 `json:"random_seed"`
				Command string  `json:"cli_command"`
			}
			err := json.Unmarshal(value, &info)
			p.Seed, p.CommandLine = info.Seed, info.Command
			return err
		case "was_cancelled":
			return json.Unmarshal(value, &p.WasCancelled)
		case "is_complete":
			return json.Unmarshal(value, &p.IsComplete)
		case "incomplete_reason":
			return json.Unmarshal(value, &p.IncompleteReason)
		case "error_summary":
			return json.Unmarshal(value, &p.Errors)
		case "start_time":
			return json.Unmarshal(value, &p.Start)
		case "end_time":
			return json.Unmarshal(value, &p.End)
		case "warmup_metrics":
			return eachKey(json.NewDecoder(bytes.NewReader(value)), func(tag string, block json.RawMessage) error {
				return appendFigure(&p.Warmup, tag, block)
			})
		default:
			return appendFigure(&p.Metrics, key, value)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("data after the document")
	}
	_, some := p.Get("request_count")
	_, failed := p.Get("error_request_count")
	if !some && !failed {
		return nil, errors.New("neither request_count nor error_request_count: not a profile")
	}
	return p, nil
}

// eachKey calls f for each key of the object that comes next.
func eachKey(dec *json.Decoder, f func(key string, value json.RawMessage) error) error {
	open, err := dec.Token()
	if err != nil {
		return err
	}
	if open != json.Delim('{') {
		return fmt.Errorf("%v where an object was expected", open)
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		key := token.(string) // the decoder lets nothing else be a key
		if seen[key] {
			return fmt.Errorf("%q twice", key)
		}
		seen[key] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if err := f(key, value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	_, err = dec.Token()
	return err
}

// appendFigure keeps a metric block, which is an object with a unit, and passes
// over anything else.
func appendFigure(figures *[]metric.Figure, tag string, value json.RawMessage) error {
	if value[0] != '{' {
		return nil
	}
	var probe struct{ Unit *string }
	if err := json.Unmarshal(value, &probe); err != nil || probe.Unit == nil {
		return nil //nolint:nilerr // an object without a textual unit is no metric
	}
	var block map[string]json.RawMessage
	if err := json.Unmarshal(value, &block); err != nil {
		return err
	}
	f := metric.Figure{Tag: tag, Distribution: metric.Scalar(*probe.Unit, math.NaN())}
	if count, ok := block["count"]; ok {
		if err := json.Unmarshal(count, &f.N); err != nil {
			return fmt.Errorf("count: %w", err)
		}
		if f.N < 0 {
			return errors.New("count: negative")
		}
	}
	for _, s := range blockStats(&f.Distribution) {
		if v, ok := block[s.key]; ok && string(v) != "null" {
			if err := json.Unmarshal(v, s.v); err != nil {
				return fmt.Errorf("%s: %w", s.key, err)
			}
		}
	}
	*figures = append(*figures, f)
	return nil
}
