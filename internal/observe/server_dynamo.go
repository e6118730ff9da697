package observe

// dynamo is the runtime around an engine, whose metrics it passes on.
var dynamo = server{
	name: "Dynamo", prefix: "dynamo_component_", page: "worker_during_load.txt", begins: true,
	values: []value{
		{field: fieldInFlight, names: []string{"dynamo_component_inflight_requests"}, labels: generate},
		{field: fieldEnded, names: []string{"dynamo_component_requests_total"}, labels: generate},
		{field: fieldFailed, names: []string{"dynamo_component_errors_total"}, labels: generate},
	},
}

// generate picks the endpoint that serves requests: a worker that tells a router
// of its cache has a second one.
var generate = map[string]string{"dynamo_endpoint": "generate"}
