package observe

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"aicr/internal/spec"
)

// LocalGPU is the GPUs of this machine, as nvidia-smi tells of them every period.
func LocalGPU(run Command, period time.Duration) Source {
	return Source{Kind: spec.SourceGPU, Instance: "local", Follower: &localGPU{run: run, period: period}}
}

// localGPU follows nvidia-smi.
type localGPU struct {
	run    Command
	period time.Duration
}

const (
	errSMIEnded = reason("nvidia-smi ended")
	errSMIHung  = reason("nvidia-smi said nothing more")
	errSMICut   = reason("a line of nvidia-smi was cut short")
	errSMILines = reason("nvidia-smi did not tell what it was asked")
)

// smiQuery is what is asked for. A driver that does not know a field by one name
// may know it by its next, or not have it.
var smiQuery = []value{
	smiIndex, smiUUID, smiModel, smiUtilization, smiPower, smiSMClock, smiTemperature, smiDoubleBit, smiRemapFailure, smiMemoryUsed, smiClockBits,
}

func (l *localGPU) Follow(ctx context.Context, tell Tell) error {
	ask := make([]string, len(smiQuery))
	tried := make([]int, len(smiQuery))
	for i, v := range smiQuery {
		ask[i] = v.names[0]
	}
	for {
		err := l.listen(ctx, slices.DeleteFunc(slices.Clone(ask), func(name string) bool { return name == "" }), tell)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		unknown, ok := errors.AsType[unknownField](err)
		if !ok {
			return err
		}
		i := slices.Index(ask, string(unknown))
		if i < 0 || unknown == "" {
			return err // it was not asked for
		}
		ask[i] = ""
		if tried[i]++; tried[i] < len(smiQuery[i].names) {
			ask[i] = smiQuery[i].names[tried[i]]
		}
	}
}

// unknownField is a field that nvidia-smi does not have by that name.
type unknownField string

func (u unknownField) Error() string { return "nvidia-smi does not know the field " + string(u) }

var notAField = regexp.MustCompile(`^Field "([^"]*)" is not a valid field to query`)

// listen runs nvidia-smi until it ends, is told to, or stops speaking.
func (l *localGPU) listen(ctx context.Context, ask []string, tell Tell) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := l.run(ctx, "nvidia-smi", "--query-gpu="+strings.Join(ask, ","), "--format=csv,nounits", "-lms", strconv.FormatInt(l.period.Milliseconds(), 10))
	if err != nil {
		return reason("nvidia-smi: " + oneLine(err.Error()))
	}
	end := sync.OnceFunc(func() { out.Close() })
	defer end()
	defer context.AfterFunc(ctx, end)()
	// A driver that nothing else uses may take seconds to answer at first.
	patience := max(10*l.period, 10*time.Second)
	var hung atomic.Bool
	watchdog := time.AfterFunc(patience, func() {
		hung.Store(true)
		end()
	})
	defer watchdog.Stop()

	err = readSMI(out, func() { watchdog.Reset(patience) }, tell.Sample)
	if hung.Load() {
		return errSMIHung
	}
	return err
}

// readSMI tells of every row until the table ends, or what comes is none. heard is
// called with every line.
func readSMI(out io.Reader, heard func(), tell func(spec.Sample)) error {
	var table smiTable
	from := linesOf(out)
	for {
		line, whole, err := from.next()
		switch {
		case errors.Is(err, io.EOF):
			return errSMIEnded
		case err != nil:
			return reason("nvidia-smi: " + oneLine(err.Error()))
		case !whole:
			return errSMICut
		}
		heard()
		sample, err := table.line(string(line))
		if err != nil {
			return err
		}
		if sample != nil {
			tell(*sample)
		}
	}
}

// smiTable is the table that nvidia-smi writes: a header, and then a row per GPU
// every period.
type smiTable struct {
	header  []string
	columns map[string]int // by the name in the header, without the unit
}

// line takes the next line, and gives a sample if it is of a GPU.
func (t *smiTable) line(line string) (*spec.Sample, error) {
	if m := notAField.FindStringSubmatch(line); m != nil {
		return nil, unknownField(m[1])
	}
	if strings.TrimSpace(line) == "" {
		return nil, nil
	}
	from := csv.NewReader(strings.NewReader(line))
	from.TrimLeadingSpace = true
	row, err := from.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", errSMILines, oneLine(line))
	}
	for i := range row {
		row[i] = strings.TrimSpace(cleaned([]byte(row[i])))
	}
	if t.header == nil {
		columns := map[string]int{}
		for i, name := range row {
			name, _, _ = strings.Cut(name, " [")
			columns[name] = i
		}
		if _, ok := cell(columns, smiUUID, row); !ok {
			if _, ok := cell(columns, smiIndex, row); !ok {
				return nil, fmt.Errorf("%w: %s", errSMILines, oneLine(line)) // such as that there is no driver
			}
		}
		t.header, t.columns = row, columns
		return nil, nil
	}
	if slices.Equal(row, t.header) {
		return nil, nil
	}
	if len(row) != len(t.header) {
		return nil, fmt.Errorf("%w: %s", errSMILines, oneLine(line))
	}
	s := t.sample(row)
	return &s, nil
}

// cell is a row's text for a value, by whatever name the header has for it.
func cell(columns map[string]int, v value, row []string) (string, bool) {
	for _, name := range v.names {
		if i, ok := columns[name]; ok && i < len(row) {
			return row[i], true
		}
	}
	return "", false
}

func (t *smiTable) sample(row []string) spec.Sample {
	u := &spec.GPUSample{}
	s := spec.Sample{Source: spec.SourceGPU, GPU: u}
	u.Index, _ = cell(t.columns, smiIndex, row)
	u.Model, _ = cell(t.columns, smiModel, row)
	if s.Name, _ = cell(t.columns, smiUUID, row); notTold(s.Name) {
		s.Name = "gpu " + u.Index
	}
	for _, f := range []struct {
		value value
		into  **float64
		parse func(string) *float64
	}{
		{smiUtilization, &u.Utilization, percent},
		{smiPower, &u.PowerW, decimal},
		{smiSMClock, &u.SMClockMHz, decimal},
		{smiTemperature, &u.TemperatureC, decimal},
		{smiDoubleBit, &u.DoubleBit, decimal},
		{smiRemapFailure, &u.RemapFailure, yesOrNo},
		{smiMemoryUsed, &u.MemoryUsed, decimal},
	} {
		text, asked := cell(t.columns, f.value, row)
		if !asked {
			notMeasured(&s, f.value.field, f.value.absent("nvidia-smi"))
		} else if *f.into = f.parse(text); *f.into == nil {
			notMeasured(&s, f.value.field, "nvidia-smi says "+oneLine(text))
		}
	}
	if text, asked := cell(t.columns, smiClockBits, row); !asked {
		notMeasured(&s, smiClockBits.field, smiClockBits.absent("nvidia-smi"))
	} else if mask, err := strconv.ParseUint(text, 0, 64); err == nil {
		u.Throttle = reasonsOf(mask)
	} else {
		notMeasured(&s, smiClockBits.field, "nvidia-smi says "+oneLine(text))
	}
	notMeasured(&s, gpuXID.field, "nvidia-smi tells no XID")
	return s
}

// notTold reports that there is no text, or what nvidia-smi writes in its place.
func notTold(text string) bool { return text == "" || text == "N/A" || text[0] == '[' }

func decimal(text string) *float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil
	}
	return number(v)
}

func percent(text string) *float64 { return scaled(decimal(text), 1e-2) }

func yesOrNo(text string) *float64 {
	switch strings.ToLower(text) {
	case "yes":
		return number(1)
	case "no":
		return number(0)
	}
	return decimal(text)
}
