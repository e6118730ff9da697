package kubelet

import (
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/kubernetes/pkg/util/parsers"

	"aicr/sandbox/programs"
	"aicr/sandbox/shim"
)

// Image is a local program that stands for an image.
type Image struct {
	Repository string   // without a tag
	Entrypoint []string // what command: replaces; nil: the pod has to say it
	Cmd        []string // what args: replaces
	Wrap       []string // a program that is given the whole command line, whatever it is; the image has no folders then
	Env        []string // NAME=value, below those of the pod
	Files      []shim.Mount
}

// Programs are the files that the table of images is made of.
type Programs struct {
	AICR string // bin/aicr; "": none
	Pod  string // bin/sandbox-pod
	Venv string // the interop environment; "": none
}

// Images is the table: which image is which program. This is the one place.
func Images(p Programs) []Image {
	images := []Image{
		{Repository: "registry.k8s.io/pause", Entrypoint: []string{p.Pod, "pause"}},
		{Repository: "busybox", Cmd: []string{"sh"}}, // the shell of this machine
	}
	for repository, program := range programs.Images() {
		images = append(images, Image{Repository: repository, Wrap: []string{p.Pod, program}, Files: seen(p.Pod)})
	}
	if p.AICR != "" {
		const inside = "/usr/local/bin/aicr"
		images = append(images, Image{Repository: "registry.example/aicr/aicr", Entrypoint: []string{inside}, Files: []shim.Mount{{Source: p.AICR, Target: inside, ReadOnly: true}}})
	}
	if p.Venv != "" {
		bin := filepath.Join(p.Venv, "bin")
		images = append(images, Image{
			Repository: "nvcr.io/nvidia/ai-dynamo/aiperf", Wrap: []string{p.Pod, "aiperf"},
			Env:   []string{"PATH=" + bin + ":" + defaultPath, "VIRTUAL_ENV=" + p.Venv},
			Files: seen(p.Pod, p.Venv),
		})
	}
	return images
}

// seen keeps what a program is made of where it is, also where a volume of the pod covers
// the folder above it: a checkout may lie below /tmp.
func seen(paths ...string) (all []shim.Mount) {
	for _, p := range paths {
		all = append(all, shim.Mount{Source: p, Target: p})
	}
	return all
}

// pullError is why an image cannot be had, in the words of a kubelet.
type pullError struct{ reason, message string }

func (e *pullError) Error() string { return e.message }

const (
	reasonInvalidName = "InvalidImageName"
	reasonPull        = "ErrImagePull"
	reasonPullBackOff = "ImagePullBackOff"
	reasonNeverPull   = "ErrImageNeverPull"
)

// find is the program of an image.
func find(table []Image, reference string) (Image, *pullError) {
	repository, _, _, err := parsers.ParseImageName(reference)
	if err != nil {
		return Image{}, &pullError{reasonInvalidName, fmt.Sprintf("Failed to apply default image tag %q: %v", reference, err)}
	}
	short := strings.TrimPrefix(repository, "docker.io/")
	short = strings.TrimPrefix(short, "library/")
	for _, one := range table {
		if one.Repository == repository || one.Repository == short {
			return one, nil
		}
	}
	return Image{}, &pullError{reasonPull, fmt.Sprintf("rpc error: code = NotFound desc = failed to pull and unpack image %q: failed to resolve reference %q: %s: not found", reference, reference, reference)}
}
