package operator

import (
	"k8s.io/client-go/rest"

	"aicr/sandbox/pki"
)

// Options are how it is started.
type Options struct {
	REST      *rest.Config   // an administrator's
	Authority *pki.Authority // signs the certificate of Dynamo's webhook
	GraphAPIs []string       // versions of DynamoGraphDeployment that are served: v1beta1, v1alpha1; none: Dynamo is not installed
	Real      bool           // graphs are run by the real Dynamo of Venv, not simulated
	KAI       bool           // KAI's queues are served, and a graph wants one; Grove makes the pods of graphs
	Gateway   bool           // the Gateway API and its inference extension are served

	GPUs map[string][]string // UUIDs of the GPUs of each node, by number

	AICR string // path of the aicr program
	Venv string // of the Python environment with the real Dynamo; "": none
	Dir  string // that pods' processes can write to: the graphs' shared files go there

	Logf func(format string, args ...any)
}
