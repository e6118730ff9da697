package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Source says what an image is made from.
type Source struct{ Version, Commit string }

// Program is the binary for one platform.
type Program struct {
	OS, Arch string
	Binary   []byte
}

const (
	binaryPath = "usr/local/bin/aicr"

	// user is nobody on any machine: the one that images without users agree on.
	user = "65532:65532"
)

// Index is an image for each of the programs.
func Index(source Source, programs []Program) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range programs {
		image, err := imageOf(source, p)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", p.OS, p.Arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Platform: &v1.Platform{OS: p.OS, Architecture: p.Arch}}})
	}
	return index, nil
}

func imageOf(source Source, p Program) (v1.Image, error) {
	files, err := filesOf(p.Binary)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: v1.History{CreatedBy: "make image"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = p.OS, p.Arch
	config.Config = v1.Config{
		User: user, Entrypoint: []string{"/" + binaryPath}, WorkingDir: "/",
		Env: []string{"PATH=/usr/local/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "aicr",
			"org.opencontainers.image.description": "Says whether a GPU inference deployment is healthy, and if not, why",
			"org.opencontainers.image.version":     source.Version,
			"org.opencontainers.image.revision":    source.Commit,
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// filesOf is the file tree: the binary, and a folder for what is temporary. Nothing in
// it has a time or an owner but root's, so that the same binary gives the same bytes.
func filesOf(binary []byte) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, dir := range []struct {
		name string
		mode int64
	}{{"tmp/", 0o1777}, {"usr/", 0o755}, {"usr/local/", 0o755}, {"usr/local/bin/", 0o755}} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir.name, Mode: dir.mode, Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
	}
	if err := put(w, binaryPath, 0o755, binary); err != nil {
		return nil, err
	}
	return b.Bytes(), w.Close()
}

func put(w *tar.Writer, name string, mode int64, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data)), Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// Archive writes an OCI layout as one file, its parts in the order of their names.
func Archive(out io.Writer, index v1.ImageIndex, source Source) error {
	blobs := map[string][]byte{}
	if err := collect(index, blobs); err != nil {
		return err
	}
	hash, err := index.Digest()
	if err != nil {
		return err
	}
	top, err := partial.Descriptor(index)
	if err != nil {
		return err
	}
	top.Annotations = map[string]string{"org.opencontainers.image.ref.name": "aicr:" + source.Version}
	manifest, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{*top}})
	if err != nil {
		return err
	}
	if _, ok := blobs[blobPath(hash)]; !ok {
		return fmt.Errorf("the index %s is not among its own parts", hash)
	}
	blobs["index.json"], blobs["oci-layout"] = manifest, []byte(`{"imageLayoutVersion":"1.0.0"}`)
	names := make([]string, 0, len(blobs))
	for name := range blobs {
		names = append(names, name)
	}
	slices.Sort(names)
	w := tar.NewWriter(out)
	for _, name := range names {
		if err := put(w, name, 0o644, blobs[name]); err != nil {
			return err
		}
	}
	return w.Close()
}

func blobPath(h v1.Hash) string { return path.Join("blobs", h.Algorithm, h.Hex) }

// collect gathers all that an index refers to.
func collect(index v1.ImageIndex, blobs map[string][]byte) error {
	raw, err := index.RawManifest()
	if err != nil {
		return err
	}
	hash, err := index.Digest()
	if err != nil {
		return err
	}
	blobs[blobPath(hash)] = raw
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			return err
		}
		if err := collectImage(image, m.Digest, blobs); err != nil {
			return err
		}
	}
	return nil
}

func collectImage(image v1.Image, hash v1.Hash, blobs map[string][]byte) error {
	raw, err := image.RawManifest()
	if err != nil {
		return err
	}
	blobs[blobPath(hash)] = raw
	config, err := image.RawConfigFile()
	if err != nil {
		return err
	}
	name, err := image.ConfigName()
	if err != nil {
		return err
	}
	blobs[blobPath(name)] = config
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		hash, err := layer.Digest()
		if err != nil {
			return err
		}
		r, err := layer.Compressed()
		if err != nil {
			return err
		}
		data, err := io.ReadAll(r)
		_ = r.Close() // all of it was read, or the error is told
		if err != nil {
			return err
		}
		blobs[blobPath(hash)] = data
	}
	return nil
}
