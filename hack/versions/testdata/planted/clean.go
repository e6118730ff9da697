package planted

// Version 1.2.3 of this program, the address 127.0.0.1:8000, go1.26.0, and
// https://nvcr.io/nvidia/ai-dynamo/vllm-runtime/tags are not pins of anything.
const (
	address = "gpu.example:8000/v1/models"
	image   = "registry.example/org/tool:v1.0.0"
	naked   = "nvcr.io/nvidia/ai-dynamo/vllm-runtime"
	module  = "github.com/org/tool@v1.2.3"
	chart   = "1.0.2"
	dynamo  = "127.0.0.1:8000"
	page    = "https://nvcr.io/v2/org/tool:list"
	place   = "internal/cli/versions.go:12"
	madeUp  = "dynamo-platform-1.2.3"
	since   = "Dynamo 1.4 refuses it"
)

// ports and slices of Go are no images.
func ports(x []string, image string) string {
	switch {
	case len(x[1:2]) > 0:
		return image[1:3]
	}
	address := "gpu-a:8000"
	_ = address
	return image
}
