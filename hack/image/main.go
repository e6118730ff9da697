// Command image builds the one container image of this program, without a daemon and
// without a base: the static binary alone, for each platform, in an OCI archive that
// crane, skopeo, podman and containerd load. The same tree gives the same bytes.
//
// The certificates that it trusts are compiled into the binary (cmd/aicr), so that
// there is nothing else to put beside it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	out := flag.String("o", "bin/aicr-image.tar", "write the archive to this `FILE`")
	version := flag.String("version", "dev", "`VERSION` that the program says it has")
	commit := flag.String("commit", "", "`COMMIT` that it was built from")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64", "build for these `PLATFORMS`")
	flag.Parse()
	digest, err := build(ctx, *out, Source{Version: *version, Commit: *commit}, strings.Split(*platforms, ","))
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	fmt.Printf("%s %s\n", digest, *out)
}

// build compiles the program for each platform and writes the archive.
func build(ctx context.Context, out string, source Source, platforms []string) (digest string, err error) {
	dir, err := os.MkdirTemp("", "aicr-image-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is a temporary folder
	var programs []Program
	for _, platform := range platforms {
		system, arch, ok := strings.Cut(platform, "/")
		if !ok {
			return "", fmt.Errorf("%q is no platform such as linux/amd64", platform)
		}
		path := filepath.Join(dir, arch)
		if err := compile(ctx, path, system, arch, source); err != nil {
			return "", fmt.Errorf("compiling for %s: %w", platform, err)
		}
		binary, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		programs = append(programs, Program{OS: system, Arch: arch, Binary: binary})
	}
	index, err := Index(source, programs)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return "", err
	}
	part := out + ".part"
	file, err := os.Create(part)
	if err != nil {
		return "", err
	}
	if err := Archive(file, index, source); err != nil {
		_ = file.Close() // the first error is told
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", err
	}
	hash, err := index.Digest()
	if err != nil {
		return "", err
	}
	return hash.String(), os.Rename(part, out)
}

func compile(ctx context.Context, out, system, arch string, source Source) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", fmt.Sprintf("-s -w -buildid= -X main.version=%s -X main.commit=%s", source.Version, source.Commit), "-o", out, "aicr/cmd/aicr")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}
