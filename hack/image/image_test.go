package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// archive is one of two small programs.
func archive(t *testing.T, source Source, amd64 string) []byte {
	t.Helper()
	index, err := Index(source, []Program{{"linux", "amd64", []byte(amd64)}, {"linux", "arm64", []byte("another")}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Archive(&b, index, source); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// opened is the index of an archive, as any other tool reads it.
func opened(t *testing.T, archive []byte) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
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

// What the archive holds is what a cluster runs: the binary, by nobody, for each
// platform, and nothing else.
func TestTheImageHoldsTheProgramAlone(t *testing.T) {
	source := Source{Version: "v1.2.3", Commit: "abc"}
	index := opened(t, archive(t, source, "program"))
	if err := validate.Index(index); err != nil {
		t.Fatal(err)
	}
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
		if got := config.OS + "/" + config.Architecture; got != m.Platform.String() {
			t.Errorf("the configuration is for %s, the index says %s", got, m.Platform)
		}
		c := config.Config
		if c.User != "65532:65532" || !cmp.Equal(c.Entrypoint, []string{"/usr/local/bin/aicr"}) || len(c.Cmd) > 0 {
			t.Errorf("user %q, entrypoint %q, arguments %q", c.User, c.Entrypoint, c.Cmd)
		}
		if c.Labels["org.opencontainers.image.version"] != source.Version || c.Labels["org.opencontainers.image.revision"] != source.Commit {
			t.Errorf("labels %v", c.Labels)
		}
		var files []string
		tree := tar.NewReader(mutate.Extract(image))
		for {
			h, err := tree.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, h.FileInfo().Mode().String()+" "+h.Name)
			if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 {
				t.Errorf("%s is of %d:%d at %v", h.Name, h.Uid, h.Gid, h.ModTime)
			}
		}
		want := []string{"dtrwxrwxrwx tmp", "drwxr-xr-x usr", "drwxr-xr-x usr/local", "drwxr-xr-x usr/local/bin", "-rwxr-xr-x usr/local/bin/aicr"}
		if diff := cmp.Diff(want, files); diff != "" {
			t.Errorf("files: %s", diff)
		}
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
		t.Error(diff)
	}
}

func TestTheSameSourceGivesTheSameBytes(t *testing.T) {
	source := Source{Version: "v1.2.3"}
	first := archive(t, source, "program")
	if !bytes.Equal(first, archive(t, source, "program")) {
		t.Error("two archives of the same program differ")
	}
	for name, other := range map[string][]byte{"binary": archive(t, source, "programme"), "version": archive(t, Source{Version: "v1.2.4"}, "program")} {
		if bytes.Equal(first, other) {
			t.Errorf("another %s gives the same archive", name)
		}
	}
}
