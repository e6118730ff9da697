//go:build linux

package e2e_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// mostOfImage is the size that an image may have, as it is pulled.
const mostOfImage = 60_000_000

// What `make image` made is what the clusters of others run: nobody's user, the program
// as its entrypoint, small, and the program in it is this one.
func TestTheImageIsTheProgram(t *testing.T) {
	index := imageIndex(t, os.Getenv("E2E_IMAGE"))
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if c := config.Config; c.User != "65532:65532" || len(c.Entrypoint) != 1 || c.Entrypoint[0] != "/usr/local/bin/aicr" {
			t.Errorf("%s: user %q, entrypoint %q", m.Platform, c.User, c.Entrypoint)
		}
		layers, err := image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		size := int64(0)
		for _, l := range layers {
			n, err := l.Size()
			if err != nil {
				t.Fatal(err)
			}
			size += n
		}
		if t.Logf("%s: %.1f MB", m.Platform, float64(size)/1e6); size > mostOfImage {
			t.Errorf("%s: %d bytes are more than %d", m.Platform, size, mostOfImage)
		}
		if m.Platform.Architecture == "amd64" {
			runs(t, image)
		}
	}
	if got := strings.Join(platforms, " "); got != "linux/amd64 linux/arm64" {
		t.Errorf("it is for %s", got)
	}
}

// The same tree gives the same digest: it is built again, and compared.
func TestTheImageIsReproducible(t *testing.T) {
	first := os.Getenv("E2E_IMAGE")
	version, commit := labels(t, imageIndex(t, first))
	again := filepath.Join(t.TempDir(), "again.tar")
	build := exec.Command("go", "run", "./hack/image", "-o", again, "-version", version, "-commit", commit)
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	a, err := imageIndex(t, first).Digest()
	if err != nil {
		t.Fatal(err)
	}
	b, err := imageIndex(t, again).Digest()
	if err != nil {
		t.Fatal(err)
	}
	if a != b {
		t.Errorf("the same tree gave %s and %s", a, b)
	}
}

// runs has the program of an image say its version.
func runs(t *testing.T, image v1.Image) {
	t.Helper()
	files := tar.NewReader(mutate.Extract(image))
	for {
		h, err := files.Next()
		if err != nil {
			t.Fatalf("there is no program: %v", err)
		}
		if h.Typeflag == tar.TypeReg {
			break
		}
	}
	path := filepath.Join(t.TempDir(), "aicr")
	var binary bytes.Buffer
	if _, err := io.Copy(&binary, files); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, binary.Bytes(), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path, "version").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func labels(t *testing.T, index v1.ImageIndex) (version, commit string) {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	l := config.Config.Labels
	return l["org.opencontainers.image.version"], l["org.opencontainers.image.revision"]
}

// imageIndex opens an archive as any other tool does.
func imageIndex(t *testing.T, archive string) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-C", dir, "-xf", archive).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%d images at the top, %v", len(manifest.Manifests), err)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index
}
