package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"aicr/sandbox/config"
	"aicr/sandbox/controlplane"
	"aicr/sandbox/network"
	"aicr/sandbox/pki"
)

// The tests run on a real control plane. That needs three processes: the one that go
// test started, one in a network of its own, which has the nodes and the tests, and the
// control plane.
const (
	roleVariable = "KUBELET_TEST_ROLE"
	dirVariable  = "KUBELET_TEST_DIR"
)

var here struct { // the cluster of the tests
	dir    string
	config *rest.Config
	api    kubernetes.Interface
	plane  *exec.Cmd
}

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(outer())
	case "plane":
		os.Exit(report(plane()))
	}
	os.Exit(inner(m))
}

func report(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "the cluster of the tests:", err)
		return 1
	}
	return 0
}

func outer() int {
	dir, err := os.MkdirTemp("", "kubelet-test-")
	if err != nil {
		return report(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "sandbox-pod"), "aicr/sandbox/cmd/sandbox-pod")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return report(fmt.Errorf("%w: %s", err, out))
	}
	cmd, err := network.StartIsolated(func() *exec.Cmd { return self(dir, "inner", os.Args[1:]...) })
	if err != nil {
		return report(err)
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

func self(dir, role string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func plane() error {
	authority, err := pki.Open(filepath.Join(os.Getenv(dirVariable), "pki"))
	if err != nil {
		return err
	}
	return controlplane.Run(context.Background(), authority)
}

func inner(m *testing.M) int {
	here.dir = os.Getenv(dirVariable)
	if err := network.Isolate(); err != nil {
		return report(err)
	}
	authority, err := pki.Open(filepath.Join(here.dir, "pki"))
	if err != nil {
		return report(err)
	}
	if err := startPlane(); err != nil {
		return report(err)
	}
	defer func() { _ = here.plane.Process.Kill() }()
	for begun := time.Now(); !controlplane.Ready(context.Background(), authority); {
		if time.Since(begun) > 3*time.Minute {
			return report(fmt.Errorf("the control plane does not start; see %s", filepath.Join(here.dir, "plane.log")))
		}
		time.Sleep(100 * time.Millisecond)
	}
	text, err := authority.Kubeconfig(controlplane.URL(), controlplane.Administrator)
	if err != nil {
		return report(err)
	}
	if here.config, err = clientcmd.RESTConfigFromKubeConfig(text); err != nil {
		return report(err)
	}
	here.config.QPS, here.config.Burst = 200, 400
	if here.api, err = kubernetes.NewForConfig(here.config); err != nil {
		return report(err)
	}
	pod := filepath.Join(here.dir, "sandbox-pod")
	stop, err := Start(context.Background(), Options{
		Client: here.config, Authority: authority, Dir: here.dir, Shim: pod, Images: Images(Programs{Pod: pod}), Default: true,
		Nodes: []config.Node{
			{Name: "gpu-0", GPUs: 2, DRA: true, CPU: "16"}, {Name: "gpu-1", GPUs: 2, DevicePlugin: true, CPU: "16"}, {Name: "cpu-0", CPU: "8"},
		},
		Logf: func(format string, values ...any) { fmt.Fprintf(os.Stderr, "kubelet: "+format+"\n", values...) },
	})
	if err != nil {
		return report(err)
	}
	code := m.Run()
	stop()
	return code
}

func startPlane() error {
	log, err := os.OpenFile(filepath.Join(here.dir, "plane.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	here.plane = self(here.dir, "plane")
	here.plane.Dir, here.plane.Stdout, here.plane.Stderr = here.dir, log, log
	return here.plane.Start()
}

// space is a namespace of its own for a test.
type space struct {
	*testing.T
	name string
}

func newSpace(t *testing.T) *space {
	t.Helper()
	n, err := here.api.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := &space{t, n.Name}
	s.until("the service account", func() string {
		_, err := here.api.CoreV1().ServiceAccounts(s.name).Get(t.Context(), "default", metav1.GetOptions{})
		return words(err)
	})
	s.until("the authority's certificate", func() string {
		_, err := here.api.CoreV1().ConfigMaps(s.name).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return words(err)
	})
	t.Cleanup(func() {
		if t.Failed() {
			s.dump()
		}
		_ = here.api.CoreV1().Namespaces().Delete(context.Background(), s.name, metav1.DeleteOptions{})
	})
	return s
}

func words(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// until waits for something that holds sooner or later; why says what is missing.
func (s *space) until(what string, why func() string) {
	s.Helper()
	limit := time.Now().Add(3 * time.Minute) // a watch that was cut is tried again after up to a minute
	for {
		missing := why()
		if missing == "" {
			return
		}
		if time.Now().After(limit) {
			s.Fatalf("%s: %s", what, missing)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// object makes one of a kind from its YAML.
func object[T any](s *space, text string) *T {
	s.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		s.Fatal(err)
	}
	return out
}

// pod makes a pod of one container c in busybox from the YAML of its container, and of
// the rest of its spec.
func (s *space) pod(name, container, rest string) *v1.Pod {
	s.Helper()
	text := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + name + "\nspec:\n"
	text += indent(rest, "  ") + "  containers:\n  - name: c\n    image: busybox\n" + indent(container, "    ")
	return s.create(object[v1.Pod](s, text))
}

func (s *space) create(p *v1.Pod) *v1.Pod {
	s.Helper()
	p, err := here.api.CoreV1().Pods(s.name).Create(s.Context(), p, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return p
}

func indent(text, by string) string {
	text = strings.Trim(text, "\n")
	if text == "" {
		return ""
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(by + strings.TrimRight(line, "\n") + "\n")
	}
	return out.String()
}

func (s *space) get(name string) *v1.Pod {
	s.Helper()
	p, err := here.api.CoreV1().Pods(s.name).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return p
}

// comes waits until a pod is as it should be.
func (s *space) comes(name, what string, is func(*v1.Pod) bool) *v1.Pod {
	s.Helper()
	var p *v1.Pod
	s.until(name+": "+what, func() string {
		var err error
		if p, err = here.api.CoreV1().Pods(s.name).Get(s.Context(), name, metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		if is(p) {
			return ""
		}
		return summary(p)
	})
	return p
}

func summary(p *v1.Pod) string {
	text := string(p.Status.Phase)
	for _, c := range p.Status.ContainerStatuses {
		data, _ := yaml.Marshal(c)
		text += "\n" + string(data)
	}
	return text
}

func (s *space) ends(name string, phase v1.PodPhase) *v1.Pod {
	s.Helper()
	return s.comes(name, string(phase), func(p *v1.Pod) bool { return p.Status.Phase == phase })
}

func (s *space) goes(name string) {
	s.Helper()
	s.until(name+" to go", func() string {
		_, err := here.api.CoreV1().Pods(s.name).Get(s.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprint("still there: ", err)
	})
}

func (s *space) remove(name string) {
	s.Helper()
	if err := here.api.CoreV1().Pods(s.name).Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *space) logs(name string, o v1.PodLogOptions) string {
	s.Helper()
	data, err := here.api.CoreV1().Pods(s.name).GetLogs(name, &o).DoRaw(s.Context())
	if err != nil {
		s.Fatalf("logs of %s: %v %s", name, err, data)
	}
	return string(data)
}

// events are those of an object: REASON: message.
func (s *space) events(name string) []string {
	list, err := here.api.CoreV1().Events(s.name).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		if e.InvolvedObject.Name == name {
			out = append(out, e.Type+" "+e.Reason+": "+e.Message)
		}
	}
	return out
}

// hears waits for an event that has all of some words.
func (s *space) hears(name string, wanted ...string) {
	s.Helper()
	s.until(name+": event "+strings.Join(wanted, " … "), func() string {
		all := s.events(name)
		for _, e := range all {
			rest, ok := e, true
			for _, w := range wanted {
				if _, after, found := strings.Cut(rest, w); found {
					rest = after
				} else {
					ok = false
				}
			}
			if ok {
				return ""
			}
		}
		return strings.Join(all, "\n")
	})
}

func (s *space) dump() {
	pods, err := here.api.CoreV1().Pods(s.name).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, p := range pods.Items {
		s.Logf("%s: %s\n%s", p.Name, summary(&p), strings.Join(s.events(p.Name), "\n"))
		for _, c := range p.Spec.Containers {
			if data, err := here.api.CoreV1().Pods(s.name).GetLogs(p.Name, &v1.PodLogOptions{Container: c.Name}).DoRaw(context.Background()); err == nil {
				s.Logf("log of %s: %s", c.Name, bytes.TrimSpace(data))
			}
		}
	}
}
