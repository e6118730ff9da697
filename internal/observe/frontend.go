package observe

import (
	"context"
	"fmt"

	"aicr/internal/spec"
)

// Frontend is the metrics page of a frontend.
func Frontend(c *Client, url string) Source {
	return c.at(spec.SourceFrontend, url, "", Labels{}, &frontendPage{})
}

// frontendPage reads the metrics page of Dynamo's frontend.
type frontendPage struct{ parser }

var frontendNames = namesOf(frontendInFlight, frontendQueued, frontendRequests, frontendTokens, frontendStalls, frontendBusy)

// numbers says whether all of these are numbers that a server can have counted.
func numbers(values map[string]float64) bool {
	for _, v := range values {
		if number(v) == nil {
			return false
		}
	}
	return true
}

var errNotAFrontend = fmt.Errorf("%w: nothing begins with dynamo_frontend_", ErrNoSuchPage)

func (f *frontendPage) read(ctx context.Context, text []byte) ([]spec.Sample, error) {
	p, err := f.parse(ctx, text, frontendNames)
	if err != nil {
		return nil, err
	}
	if len(p) == 0 {
		return nil, errNotAFrontend
	}
	fs := &spec.FrontendSample{}
	s := spec.Sample{Source: spec.SourceFrontend, Frontend: fs}
	for _, v := range []struct {
		value value
		into  **float64
	}{
		{frontendInFlight, &fs.InFlight},
		{frontendQueued, &fs.Queued},
		{frontendTokens, &fs.Tokens},
		{frontendStalls, &fs.Stalls},
	} {
		if *v.into = sum(v.value.in(p)); *v.into == nil {
			notMeasured(&s, v.value.field, v.value.missing("the frontend", p))
		}
	}
	// Dynamo tells the ratio per mille.
	if fs.Busy = scaled(greatest(frontendBusy.in(p)), 1e-3); fs.Busy == nil {
		notMeasured(&s, frontendBusy.field, frontendBusy.missing("the frontend", p))
	}
	ended := frontendRequests.in(p)
	if sum(ended) == nil {
		// The series begins with the first request that ends.
		for _, field := range []string{"served", "failed", frontendRequests.field} {
			notMeasured(&s, field, frontendRequests.absent("the frontend")+", as before its first request")
		}
		return []spec.Sample{s}, nil
	}
	served, failed, outcomes := 0.0, 0.0, map[string]float64{}
	for _, one := range ended {
		outcome := one.labels["status"]
		if outcome == "success" {
			served += one.value
		} else {
			failed += one.value
			if kind := one.labels["error_type"]; kind != "" {
				outcome = kind
			}
		}
		outcomes[outcome] += one.value
	}
	if err := LimitOutcomes.within(len(outcomes)); err != nil {
		return nil, err
	}
	if fs.Served, fs.Failed = number(served), number(failed); fs.Served == nil || fs.Failed == nil || !numbers(outcomes) {
		fs.Served, fs.Failed = nil, nil
		for _, field := range []string{"served", "failed", frontendRequests.field} {
			notMeasured(&s, field, "the frontend tells no number")
		}
		return []spec.Sample{s}, nil
	}
	fs.Outcomes = outcomes
	return []spec.Sample{s}, nil
}
