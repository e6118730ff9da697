package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
)

// first is the first container's status, and empty before there is one.
func first(p *v1.Pod) (c v1.ContainerStatus) {
	if len(p.Status.ContainerStatuses) > 0 {
		c = p.Status.ContainerStatuses[0]
	}
	return c
}

// waits waits until the container waits for a reason.
func (s *space) waits(name, reason string) *v1.Pod {
	s.Helper()
	return s.comes(name, reason, func(p *v1.Pod) bool { w := first(p).State.Waiting; return w != nil && w.Reason == reason })
}

func terminated(p *v1.Pod) *v1.ContainerStateTerminated {
	if end := first(p).State.Terminated; end != nil {
		return end
	}
	return &v1.ContainerStateTerminated{Reason: "it has not ended"}
}

func TestPodRunsAndTellsItsEnd(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.pod("good", `command: [sh, -c, "echo hello $POD_IP; echo done > /dev/termination-log"]`, "restartPolicy: Never")
	p := s.ends("good", v1.PodSucceeded)
	if end := terminated(p); end.ExitCode != 0 || end.Reason != "Completed" || end.Message != "done\n" {
		t.Errorf("the end is %+v", end)
	}
	if got, want := s.logs("good", v1.PodLogOptions{}), "hello "+p.Status.PodIP+"\n"; got != want {
		t.Errorf("the log is %q, and should be %q", got, want)
	}
	for _, e := range []string{"Normal Pulled: ", "Normal Created: ", "Normal Started: "} {
		s.hears("good", e)
	}
}

func TestExitCodesAndMessages(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	for _, one := range []struct {
		name, container string
		code            int32
		reason, message string
	}{
		{"code", `command: [sh, -c, "exit 7"]`, 7, "Error", ""},
		{"signal", `command: [sh, -c, "kill -SEGV $$$$"]`, 139, "Error", ""},
		{"fallback", "command: [sh, -c, \"echo why; exit 3\"]\nterminationMessagePolicy: FallbackToLogsOnError", 3, "Error", "why\n"},
		{"path", "command: [sh, -c, \"echo mine > /run/last-words; exit 1\"]\nterminationMessagePath: /run/last-words", 1, "Error", "mine\n"},
		{"missing", `command: [no-such-program]`, 128, "StartError", "executable file not found"},
	} {
		s.pod(one.name, one.container, "restartPolicy: Never")
		end := terminated(s.ends(one.name, v1.PodFailed))
		if end.ExitCode != one.code || end.Reason != one.reason || !strings.Contains(end.Message, one.message) {
			t.Errorf("%s: the end is %+v", one.name, end)
		}
	}
}

func TestCrashLoop(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.pod("crash", `command: [sh, -c, "echo turn; exit 9"]`, "")
	p := s.waits("crash", "CrashLoopBackOff")
	if last := p.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 9 {
		t.Errorf("the last end is %+v", last)
	}
	if p.Status.Phase != v1.PodRunning {
		t.Errorf("the phase is %s", p.Status.Phase)
	}
	s.hears("crash", "Warning BackOff: Back-off restarting failed container c in pod crash_"+s.name)
	if got := s.logs("crash", v1.PodLogOptions{Previous: true}); got != "turn\n" {
		t.Errorf("the previous log is %q", got)
	}
	s.remove("crash")
	s.goes("crash")
}

func TestRemovalWaitsForTheProcessAndNotLonger(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.pod("polite", `command: [sh, -c, "trap 'echo bye; exit 0' TERM; while :; do sleep 0.1; done"]`, "terminationGracePeriodSeconds: 600")
	s.pod("stubborn", `command: [sh, -c, "trap '' TERM; while :; do sleep 0.1; done"]`, "terminationGracePeriodSeconds: 1")
	for _, name := range []string{"polite", "stubborn"} {
		s.ends(name, v1.PodRunning)
		s.remove(name)
		s.goes(name) // until gives it one minute, which is less than 600 s
	}
	s.hears("polite", "Normal Killing: Stopping container c")
}

func TestOutOfMemoryAndEviction(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	for name, phase := range map[string]string{"oom": "OOMKilled", "evict": "Evicted"} {
		p := object[v1.Pod](s, "metadata: {name: "+name+", annotations: {sandbox.aicr.run/faults: "+name+"=100ms}}\nspec: {restartPolicy: Never, containers: [{name: c, image: busybox, command: [sleep, '600']}]}")
		s.create(p)
		p = s.ends(name, v1.PodFailed)
		if terminated(p).Reason != phase && p.Status.Reason != phase {
			t.Errorf("%s: %s", name, summary(p))
		}
	}
}

func TestInitContainersAndSidecars(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.pod("order", "command: [sh, -c, \"cat /w/log; test -e /w/side\"]\nvolumeMounts: [{name: w, mountPath: /w}]", `
restartPolicy: Never
volumes: [{name: w, emptyDir: {}}]
initContainers:
- {name: one, image: busybox, command: [sh, -c, "echo one >> /w/log"], volumeMounts: [{name: w, mountPath: /w}]}
- {name: side, image: busybox, restartPolicy: Always, command: [sh, -c, "touch /w/side; exec sleep 600"], volumeMounts: [{name: w, mountPath: /w}], startupProbe: {exec: {command: [test, -e, /w/side]}, periodSeconds: 1}}
- {name: two, image: busybox, command: [sh, -c, "echo two >> /w/log"], volumeMounts: [{name: w, mountPath: /w}]}
`)
	s.ends("order", v1.PodSucceeded)
	if got := s.logs("order", v1.PodLogOptions{Container: "c"}); got != "one\ntwo\n" {
		t.Errorf("the log is %q", got)
	}
	s.pod("broken", "command: [sh, -c, \"echo never\"]", "restartPolicy: Never\ninitContainers: [{name: one, image: busybox, command: [sh, -c, 'exit 4']}]")
	p := s.ends("broken", v1.PodFailed)
	if end := p.Status.InitContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 4 {
		t.Errorf("the init container ended with %+v", end)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.settings()
	s.pod("env", `
command: [sh, -c, 'echo "$0|$GREETING|$COLOR|$PASSWORD|$P_color|$NODE|$IP|$CPU|$NAME|$NONE"; echo "$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT"', $(GREETING)]
envFrom: [{prefix: P_, configMapRef: {name: settings}}]
resources: {limits: {cpu: "2"}}
env:
- {name: WHO, value: world}
- {name: GREETING, value: "hi $(WHO) $$(WHO) $(UNSET)"}
- {name: COLOR, valueFrom: {configMapKeyRef: {name: settings, key: color}}}
- {name: NONE, valueFrom: {configMapKeyRef: {name: none, key: color, optional: true}}}
- {name: PASSWORD, valueFrom: {secretKeyRef: {name: secret, key: password}}}
- {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
- {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
`, "restartPolicy: Never\nnodeSelector: {kubernetes.io/hostname: cpu-0}")
	p := s.ends("env", v1.PodSucceeded)
	g := "hi world $(WHO) $(UNSET)"
	want := g + "|" + g + "|blue|hunter2|blue|cpu-0|" + p.Status.PodIP + "|2|env|\n10.96.0.1:443\n"
	if got := s.logs("env", v1.PodLogOptions{}); got != want {
		t.Errorf("the log is\n%s and should be\n%s", got, want)
	}
	s.pod("lacking", "command: [sh]\nenvFrom: [{secretRef: {name: none}}]", "")
	if p := s.waits("lacking", "CreateContainerConfigError"); !strings.Contains(p.Status.ContainerStatuses[0].State.Waiting.Message, `"none" not found`) {
		t.Error(summary(p))
	}
}

func (s *space) settings() {
	s.Helper()
	if _, err := here.api.CoreV1().ConfigMaps(s.name).Create(s.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"color": "blue"}}, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	if _, err := here.api.CoreV1().Secrets(s.name).Create(s.Context(), &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}, StringData: map[string]string{"password": "hunter2"}}, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func TestJobWithVolumes(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.settings()
	job := object[batch.Job](s, `
metadata: {name: all}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      volumes:
      - {name: config, configMap: {name: settings}}
      - {name: secret, secret: {secretName: secret}}
      - {name: scratch, emptyDir: {}}
      - name: api
        projected:
          sources:
          - {serviceAccountToken: {path: token, expirationSeconds: 600, audience: somebody}}
          - {configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}}
          - {downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}}
      containers:
      - name: c
        image: busybox
        command: [sh, -c]
        args:
        - |
          cat /data/run/color /one; echo; cat /secret/password; echo
          echo kept > /results/sub/x; cat /other/x
          touch /data/run/x 2>/dev/null || echo read-only
          touch /ro/x 2>/dev/null || echo read-only
          cat /api/namespace; echo; grep -c BEGIN /api/ca.crt; cut -c1-3 /api/token
          cut -c1-3 /var/run/secrets/kubernetes.io/serviceaccount/token
          head -1 /etc/resolv.conf; grep -c "$HOSTNAME" /etc/hosts
        volumeMounts:
        - {name: config, mountPath: /data/run}
        - {name: config, mountPath: /one, subPath: color}
        - {name: secret, mountPath: /secret}
        - {name: scratch, mountPath: /results}
        - {name: scratch, mountPath: /results/sub, subPath: deep/er}
        - {name: scratch, mountPath: /other, subPath: deep/er}
        - {name: scratch, mountPath: /ro, readOnly: true}
        - {name: api, mountPath: /api}
`)
	if _, err := here.api.BatchV1().Jobs(s.name).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.until("the Job", func() string {
		j, err := here.api.BatchV1().Jobs(s.name).Get(t.Context(), "all", metav1.GetOptions{})
		if err != nil || j.Status.Succeeded == 1 || j.Status.Failed > 0 {
			return words(err)
		}
		return "it has not ended"
	})
	pods, err := here.api.CoreV1().Pods(s.name).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Fatal(err, len(pods.Items))
	}
	want := "blueblue\nhunter2\nkept\nread-only\nread-only\n" + s.name + "\n1\neyJ\neyJ\nsearch " + s.name + ".svc.cluster.local svc.cluster.local cluster.local\n1\n"
	got := s.logs(pods.Items[0].Name, v1.PodLogOptions{})
	if got != want {
		t.Errorf("the log is\n%s and should be\n%s", got, want)
	}
	t.Logf("%s", got)
}

func TestConfigMapIsUpdatedInThePod(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.settings()
	s.pod("watcher", "command: [sh, -c, \"until grep -q red /c/color; do sleep 0.1; done\"]\nvolumeMounts: [{name: v, mountPath: /c}]", "restartPolicy: Never\nvolumes: [{name: v, configMap: {name: settings}}]")
	s.ends("watcher", v1.PodRunning)
	if _, err := here.api.CoreV1().ConfigMaps(s.name).Update(t.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"color": "red"}}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.ends("watcher", v1.PodSucceeded)
}

func TestVolumesThatCannotBeHad(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.pod("missing", "command: [sh]", "volumes: [{name: v, configMap: {name: none}}]")
	s.hears("missing", `Warning FailedMount: MountVolume.SetUp failed for volume "v" : `, `"none" not found`)
	s.pod("host", "command: [sh]", "volumes: [{name: v, hostPath: {path: /etc}}]")
	s.hears("host", `Warning FailedMount: MountVolume.SetUp failed for volume "v" : the sandbox refuses hostPath`)
	s.waits("host", "ContainerCreating")
	s.remove("host")
	s.goes("host")
}

func TestPersistentVolume(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	for name, class := range map[string]string{"mine": "", "nobody": "storageClassName: nobodys\n"} {
		claim := object[v1.PersistentVolumeClaim](s, "metadata: {name: "+name+"}\nspec:\n  accessModes: [ReadWriteOnce]\n  resources: {requests: {storage: 1Gi}}\n"+indent(class, "  "))
		if _, err := here.api.CoreV1().PersistentVolumeClaims(s.name).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const mount = "\nvolumeMounts: [{name: v, mountPath: /cache}]"
	const volumes = "restartPolicy: Never\nvolumes: [{name: v, persistentVolumeClaim: {claimName: mine}}]"
	s.pod("writer", `command: [sh, -c, "echo kept > /cache/x"]`+mount, volumes)
	s.ends("writer", v1.PodSucceeded)
	s.pod("reader", `command: [cat, /cache/x]`+mount, volumes)
	s.ends("reader", v1.PodSucceeded)
	if got := s.logs("reader", v1.PodLogOptions{}); got != "kept\n" {
		t.Errorf("the volume has %q", got)
	}
	s.hears("nobody", `Warning ProvisioningFailed: storageclass.storage.k8s.io "nobodys" not found`)
	claim, err := here.api.CoreV1().PersistentVolumeClaims(s.name).Get(t.Context(), "mine", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.remove("writer")
	s.remove("reader")
	if err := here.api.CoreV1().PersistentVolumeClaims(s.name).Delete(t.Context(), "mine", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.until("the volume to go", func() string {
		if _, err := os.Stat(here.dir + "/volumes/" + claim.Spec.VolumeName); err != nil {
			return ""
		}
		return "its folder is there"
	})
}

func TestProbes(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	serve := func(path string) string {
		return `command: [python3, -c, "import http.server,os,functools; http.server.HTTPServer((os.environ['POD_IP'],8080),functools.partial(http.server.SimpleHTTPRequestHandler,directory='/w')).serve_forever()"]
volumeMounts: [{name: w, mountPath: /w}]
ports: [{name: web, containerPort: 8080}]
startupProbe: {tcpSocket: {port: web}, periodSeconds: 1, failureThreshold: 60}
` + path
	}
	const volumes = "terminationGracePeriodSeconds: 1\nvolumes: [{name: w, emptyDir: {}}]"
	s.pod("ready", serve("readinessProbe: {httpGet: {path: /ok, port: web}, periodSeconds: 1, failureThreshold: 1}"), volumes)
	s.comes("ready", "started", func(p *v1.Pod) bool {
		c := first(p)
		return c.Started != nil && *c.Started
	})
	s.hears("ready", "Warning Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 404")
	if c := s.get("ready").Status.ContainerStatuses[0]; c.Ready {
		t.Error("it is ready, and answers 404")
	}
	if code, _, _ := s.exec("ready", "", "touch", "/w/ok"); code != 0 {
		t.Errorf("exec: %d", code)
	}
	ready := func(want v1.ConditionStatus) func(*v1.Pod) bool {
		return func(p *v1.Pod) bool {
			for _, c := range p.Status.Conditions {
				if c.Type == v1.PodReady {
					return c.Status == want
				}
			}
			return false
		}
	}
	s.comes("ready", "ready", ready(v1.ConditionTrue))
	s.exec("ready", "", "rm", "/w/ok")
	s.comes("ready", "not ready", ready(v1.ConditionFalse))

	s.pod("alive", "command: [sh, -c, \"touch /w/alive; exec sleep 600\"]\nvolumeMounts: [{name: w, mountPath: /w}]\nlivenessProbe: {exec: {command: [cat, /w/alive]}, periodSeconds: 1, failureThreshold: 2}", volumes)
	s.ends("alive", v1.PodRunning)
	s.exec("alive", "", "rm", "/w/alive")
	s.comes("alive", "restarted", func(p *v1.Pod) bool { return first(p).RestartCount == 1 })
	s.hears("alive", "Warning Unhealthy: Liveness probe failed: cat: /w/alive: No such file")
	s.hears("alive", "Normal Killing: Container c failed liveness probe, will be restarted")
}

func TestImagesThatAreNotThere(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	for name, image := range map[string]string{"unknown": "registry.example/nobody/none:1", "invalid": "UPPER/:"} {
		s.create(object[v1.Pod](s, "metadata: {name: "+name+"}\nspec: {containers: [{name: c, image: '"+image+"'}]}"))
	}
	for name, reasons := range map[string][]string{"unknown": {"ErrImagePull", "ImagePullBackOff"}, "invalid": {"InvalidImageName"}} {
		for _, reason := range reasons {
			if p := s.waits(name, reason); p.Status.Phase != v1.PodPending {
				t.Errorf("%s: the phase is %s", name, p.Status.Phase)
			}
			s.hears(name, "Warning Failed: Error: "+reason)
		}
	}
	s.hears("unknown", `Normal BackOff: Back-off pulling image "registry.example/nobody/none:1"`)
	s.hears("unknown", `Warning Failed: Failed to pull image "registry.example/nobody/none:1": `, "not found")
}

func (s *space) exec(pod, stdin string, command ...string) (code int, stdout, stderr string) {
	s.Helper()
	request := here.api.CoreV1().RESTClient().Post().Namespace(s.name).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&v1.PodExecOptions{Container: "c", Command: command, Stdin: stdin != "", Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(here.config, "GET", request.URL().String())
	if err != nil {
		s.Fatal(err)
	}
	var out, errs bytes.Buffer
	o := remotecommand.StreamOptions{Stdout: &out, Stderr: &errs}
	if stdin != "" {
		o.Stdin = strings.NewReader(stdin)
	}
	err = executor.StreamWithContext(s.Context(), o)
	if exit, ok := err.(utilexec.ExitError); ok {
		code = exit.ExitStatus()
	} else if err != nil {
		s.Fatalf("exec %v: %v %s", command, err, errs.String())
	}
	return code, out.String(), errs.String()
}

func TestExecLogsAndPortForward(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.pod("server", `
command: [python3, -u, -c, "import socket,os\nl=socket.create_server((os.environ['POD_IP'],7000))\nfor i in range(3): print('line',i)\nwhile True:\n  c,_=l.accept(); d=c.recv(100); print('got',d.decode()); c.sendall(d.upper()); c.close()"]
volumeMounts: [{name: w, mountPath: /only/here}]
readinessProbe: {exec: {command: [sh, -c, "ls /only/here"]}, periodSeconds: 1}`, "volumes: [{name: w, emptyDir: {}}]\nterminationGracePeriodSeconds: 1")
	s.until("three lines", func() string {
		if text := s.logs2("server"); strings.Count(text, "\n") != 3 {
			return fmt.Sprintf("%q", text)
		}
		return ""
	})
	code, out, errs := s.exec("server", "some input", "sh", "-c", "cat; ls -d /only/here; echo $POD_IP >&2; exit 5")
	if code != 5 || out != "some input/only/here\n" || errs != s.get("server").Status.PodIP+"\n" {
		t.Errorf("exec gave %d, %q, %q", code, out, errs)
	}
	if got := s.logs("server", v1.PodLogOptions{TailLines: new(int64(2))}); got != "line 1\nline 2\n" {
		t.Errorf("the tail is %q", got)
	}
	if got := s.logs("server", v1.PodLogOptions{LimitBytes: new(int64(8))}); got != "line 0\nl" {
		t.Errorf("the first bytes are %q", got)
	}
	if got := s.logs("server", v1.PodLogOptions{SinceTime: &metav1.Time{Time: time.Now().Add(time.Hour)}}); got != "" {
		t.Errorf("the log of the future is %q", got)
	}
	if got := s.logs("server", v1.PodLogOptions{Timestamps: true}); !strings.HasPrefix(got, "20") || !strings.Contains(got, "Z line 0\n") {
		t.Errorf("with times it is %q", got)
	}
	follow, err := here.api.CoreV1().Pods(s.name).GetLogs("server", &v1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.forward("server")
	s.remove("server")
	all, err := io.ReadAll(follow) // it ends with the container
	if err != nil || string(all) != "line 0\nline 1\nline 2\ngot ping\n" {
		t.Errorf("following gave %q, %v", all, err)
	}
}

func (s *space) logs2(name string) string {
	data, err := here.api.CoreV1().Pods(s.name).GetLogs(name, &v1.PodLogOptions{}).DoRaw(s.Context())
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (s *space) forward(pod string) {
	s.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(here.config)
	if err != nil {
		s.Fatal(err)
	}
	url := here.api.CoreV1().RESTClient().Post().Namespace(s.name).Resource("pods").Name(pod).SubResource("portforward").URL()
	stop, ready := make(chan struct{}), make(chan struct{})
	defer close(stop)
	f, err := portforward.NewOnAddresses(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", url), []string{"127.0.0.1"}, []string{"0:7000"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		s.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- f.ForwardPorts() }()
	select {
	case err := <-failed:
		s.Fatal(err)
	case <-ready:
	}
	ports, err := f.GetPorts()
	if err != nil {
		s.Fatal(err)
	}
	if got := talk(s.T, fmt.Sprintf("127.0.0.1:%d", ports[0].Local), "ping"); got != "PING" {
		s.Errorf("through the forwarded port came %q", got)
	}
}

func TestClaimedGPUs(t *testing.T) {
	s := newSpace(t) // not beside the others: it makes gpu-0 sick
	template := object[resourceapi.ResourceClaimTemplate](s, "metadata: {name: one}\nspec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}")
	if _, err := here.api.ResourceV1().ResourceClaimTemplates(s.name).Create(t.Context(), template, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const claims = "restartPolicy: Never\nresourceClaims: [{name: g, resourceClaimTemplateName: one}]"
	const container = "command: [sh, -c, \"echo $NVIDIA_VISIBLE_DEVICES $SANDBOX_GPUS\"]\nresources: {claims: [{name: g}]}"
	s.pod("claimer", container, claims)
	p := s.ends("claimer", v1.PodSucceeded)
	if p.Spec.NodeName != "gpu-0" {
		t.Errorf("it ran on %s, which has no such devices", p.Spec.NodeName)
	}
	if got, want := s.logs("claimer", v1.PodLogOptions{}), newGPU("gpu-0", 0).uuid+" 0\n"; got != want {
		t.Errorf("it saw %q, and should have seen %q", got, want)
	}
	faults := func(text string) {
		t.Helper()
		if _, err := here.api.CoreV1().Nodes().Patch(context.Background(), "gpu-0", "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"sandbox.aicr.run/faults":`+text+`}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	faults(`"dra-stale"`)
	defer faults("null")
	s.pod("stale", container, claims)
	s.hears("stale", "Warning FailedPrepareDynamicResources: Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for ResourceClaim stale-g-", "invalid device, empty device edits")
	s.waits("stale", "ContainerCreating")
	faults("null")
	s.ends("stale", v1.PodSucceeded)
}

func TestDevicePluginGPUs(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	const container = "command: [sh, -c, \"echo $SANDBOX_GPUS; exec sleep 600\"]\nresources: {limits: {nvidia.com/gpu: 1}}"
	var seen []string
	for _, name := range []string{"a", "b"} {
		s.pod(name, container, "terminationGracePeriodSeconds: 1")
		s.ends(name, v1.PodRunning)
		s.until("a line", func() string {
			if s.logs2(name) == "" {
				return "none"
			}
			return ""
		})
		seen = append(seen, s.logs2(name))
	}
	if strings.Join(seen, "") != "0\n1\n" {
		t.Errorf("they were given %q", seen)
	}
	s.pod("c", container, "")
	s.hears("c", "Warning FailedScheduling", "Insufficient nvidia.com/gpu")
}

func TestStatsAreForThoseWhoMay(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.pod("asker", `command: [python3, -c, "import urllib.request,ssl,sys\nt=open('/var/run/secrets/kubernetes.io/serviceaccount/token').read()\nr=urllib.request.Request('https://10.244.255.3:10250/stats/summary',headers={'Authorization':'Bearer '+t})\nc=ssl.create_default_context(cafile='/var/run/secrets/kubernetes.io/serviceaccount/ca.crt')\ntry:\n  b=urllib.request.urlopen(r,context=c).read().decode(); print('psi' in b, 'cpu-0' in b)\nexcept Exception as e: print(e)\n"]`, "")
	last := func(want string) {
		t.Helper()
		s.until("the answer "+want, func() string {
			if text := s.logs2("asker"); !strings.HasPrefix(text, want) {
				return fmt.Sprintf("%q", text)
			}
			return ""
		})
	}
	last("HTTP Error 403: Forbidden")
	role := &rbac.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.name}, Rules: []rbac.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes/stats"}, Verbs: []string{"get"}, ResourceNames: []string{"cpu-0"}}}}
	if _, err := here.api.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbac.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.name}, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: s.name},
		Subjects: []rbac.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: s.name}},
	}
	if _, err := here.api.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	last("True True") // it is started again and again
}

func TestPodsOutliveTheControlPlane(t *testing.T) {
	s := newSpace(t) // not beside the others: it takes the API server away
	s.pod("worker", `command: [sh, -c, "until test -e /w/end; do sleep 0.1; done; exit 3"]
volumeMounts: [{name: w, mountPath: /w}]`, "restartPolicy: Never\nvolumes: [{name: w, emptyDir: {}}]")
	p := s.ends("worker", v1.PodRunning)
	if err := here.plane.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = here.plane.Wait()
	// It ends while nobody can be told.
	if err := os.WriteFile(here.dir+"/nodes/"+p.Spec.NodeName+"/pods/"+string(p.UID)+"/volumes/w/end", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(21 * time.Second)
	if err := startPlane(); err != nil {
		t.Fatal(err)
	}
	if end := terminated(s.ends("worker", v1.PodFailed)); end.ExitCode != 3 {
		t.Errorf("the end is %+v", end)
	}
	s.pod("next", `command: [echo]`, "restartPolicy: Never")
	s.ends("next", v1.PodSucceeded)
}
