// Package scenarios is the built-in library: the fleets and faults that have a
// name. Each is a YAML file of this directory, a complete Scenario that says only
// what differs from the defaults, and what a judge must say of it. The file's
// first line is the line that `aicr sim list` prints.
//
//   - s1 to s19 are the test oracle: a judge is held against them, seed by seed.
//   - i1 to i8 are published incidents of engines that were up and did not serve.
//   - The others are faults and controls worth having by name, and small, a fleet
//     that a laptop can serve in real time.
//
// To add one, write the file and put its name into Names.
//
// What the incidents tell and a fleet cannot show: the design of a prober, such as
// gpustack's, which queues with the users and restarts what is busy (i6 is the
// fleet that it would restart); the cause inside an engine, such as a slow KV
// offload (i4 shows its gauges, by another way); a minute of idleness as a cause
// (i5 has the pause between two episodes instead); and how long it took until
// somebody noticed.
package scenarios
