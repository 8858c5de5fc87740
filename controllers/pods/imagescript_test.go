package pods_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// withImages runs a test in virtual time. The starter of its control plane has a script.
func withImages(t *testing.T, script string, test func(w *world)) {
	t.Helper()
	parsed, err := pods.ParseScript([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	o := controllers.Options{Pods: pods.Options{Script: parsed, OnRuntime: func(r runtime.Runtime) { w.runtime = r }}}
	controllerstest.WithControlPlane(t, controlplane.Options{Controllers: o}, func(e controllerstest.Env) {
		w.Env = e
		test(w)
	})
}

// exec executes a command in the container web of a pod.
func (w *world) exec(pod string, command ...string) (output string, code int) {
	w.Helper()
	var b strings.Builder
	code, err := w.runtime.Exec(w.Context(), runtime.PodRef{Namespace: "default", Name: pod}, "web", command, runtime.Streams{Stdout: &b, Stderr: &b})
	w.Must(err)
	return b.String(), code
}

// databaseImage has an entry point that serves a port, and a program that clients execute.
const databaseImage = `
containers:
- image: "database:*"
  command: [/entry]
  args: [serve, --data=/data]
  files:
    /etc/version: "17\n"
    /entry: |
      #!/bin/sh
      echo "$0 $*"
      if [ "$1" = answer ]; then
        read -r line
        printf 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nup\n'
        exit
      fi
      sleep 3
      exec nc -lk -p 5432 -e /usr/bin/answer
    /usr/bin/answer: |
      #!/bin/sh
      while read -r line && [ ${#line} -gt 1 ]; do :; done
      printf 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nup\n'
    /usr/bin/dbctl: |
      #!/bin/sh
      case $1 in
      status) cat /var/status 2>/dev/null || echo new ;;
      set) echo "$2" > /var/status ;;
      *) echo "unknown command $1" >&2; exit 64 ;;
      esac
`

// TestImageScript: the starter's script is the entry point of an image, listens, and answers exec.
func TestImageScript(t *testing.T) {
	withImages(t, databaseImage, func(w *world) {
		db := controllerstest.Pod("db", "database:17")
		db.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1,
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(5432)}}}
		other := controllerstest.Pod("other", "web:1")
		own := controllerstest.Pod("own", "database:17")
		own.Spec.Containers[0].Args = []string{"answer"}
		own.Spec.RestartPolicy = corev1.RestartPolicyNever
		w.CreateAll(db, other, own)
		wait(time.Second)
		w.want("before it listens", "db", "Running restarts=0 ready=false running")
		w.want("arguments of the pod go before the image's", "own", "Succeeded restarts=0 ready=false Completed=0")
		wait(4 * time.Second)
		w.want("when it listens", "db", "Running restarts=0 ready=true running")
		if got := w.logs("db", corev1.PodLogOptions{}); got != "/entry serve --data=/data\n" {
			t.Errorf("the log is %q", got)
		}
		conn, err := w.runtime.Dial(w.Context(), runtime.PodRef{Namespace: "default", Name: "db"}, 5432)
		w.Must(err)
		request, err := http.NewRequest(http.MethodGet, "http://db/", nil)
		w.Must(err)
		w.Must(request.Write(conn))
		if answer, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(answer), "\r\n\r\nup\n") {
			t.Errorf("the port answers %q, %v", answer, err)
		}
		for _, step := range []struct {
			pod, command, want string
			code               int
		}{
			{"db", "dbctl status", "new\n", 0}, {"db", "dbctl set ready", "", 0}, {"db", "dbctl status", "ready\n", 0},
			{"db", "/usr/bin/dbctl drop", "unknown command drop\n", 64}, {"db", "cat /etc/version", "17\n", 0},
			{"other", "dbctl status", "exec: \"dbctl\": executable file not found in $PATH\n", 127},
		} {
			if got, code := w.exec(step.pod, strings.Fields(step.command)...); got != step.want || code != step.code {
				t.Errorf("%s in %s: %q with the exit code %d", step.command, step.pod, got, code)
			}
		}
	})
}

// TestFilesOfAnImage: a container that copies a file which only its image has does not fail, and a program of an image is found by
// the working directory and the PATH of the container.
func TestFilesOfAnImage(t *testing.T) {
	withImages(t, `
containers:
- image: "tools:*"
  files:
    /app/run: |
      #!/bin/sh
      echo "in $(pwd)"
      exit 3
`, func(w *world) {
		copying := controllerstest.Pod("copying", "web:1")
		copying.Spec.Volumes = []corev1.Volume{{Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		mounts := []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}}
		copying.Spec.InitContainers = []corev1.Container{
			{Name: "tool", Image: "argocd:v3", Command: []string{"/bin/cp", "-n", "/usr/local/bin/argocd", "/shared/server"}, VolumeMounts: mounts},
			{Name: "script", Image: "argocd:v3", Command: []string{"sh", "-c", "cp /usr/local/bin/argocd /shared && ln -s argocd /shared/link"}, VolumeMounts: mounts},
		}
		failing := controllerstest.Pod("failing", "web:1")
		failing.Spec.RestartPolicy = corev1.RestartPolicyNever
		failing.Spec.Volumes = copying.Spec.Volumes
		failing.Spec.Containers[0].Command, failing.Spec.Containers[0].VolumeMounts = []string{"cp", "/shared/none", "/tmp"}, mounts
		relative := controllerstest.Pod("relative", "tools:1")
		relative.Spec.RestartPolicy = corev1.RestartPolicyNever
		relative.Spec.Containers[0].Command, relative.Spec.Containers[0].WorkingDir = []string{"./run"}, "/app"
		byPath := controllerstest.Pod("path", "tools:1")
		byPath.Spec.RestartPolicy = corev1.RestartPolicyNever
		byPath.Spec.Containers[0].Command, byPath.Spec.Containers[0].Env = []string{"run"}, []corev1.EnvVar{{Name: "PATH", Value: "/bin:/app"}}
		w.CreateAll(copying, failing, relative, byPath)
		wait(time.Second)
		w.want("after a copy from the image", "copying", "Running restarts=0 ready=true running")
		w.want("after a copy of a missing file of a volume", "failing", "Failed restarts=0 ready=false Error=1")
		w.want("a relative path", "relative", "Failed restarts=0 ready=false Error=3")
		w.want("a program in PATH", "path", "Failed restarts=0 ready=false Error=3")
		if got := w.logs("relative", corev1.PodLogOptions{}) + w.logs("path", corev1.PodLogOptions{}); got != "in /app\nin /\n" {
			t.Errorf("the logs are %q", got)
		}
	})
}

// TestProgramsOfAPod: the author of a pod says what exec of a program answers, before what the starter says.
func TestProgramsOfAPod(t *testing.T) {
	withImages(t, databaseImage, func(w *world) {
		pod := controllerstest.Pod("p", "database:17")
		pod.Annotations = map[string]string{pods.ScriptAnnotation: `
containers:
- name: web
  files:
    /usr/bin/dbctl: |
      #!/bin/sh
      echo "mine: $*"
      exit 7
    /usr/bin/check: |
      #!/bin/sh
      test -e /tmp/ok
`}
		pod.Spec.Containers[0].Command = []string{"/unknown"} // so nothing executes the container
		pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1,
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"check"}}}}
		w.CreateAll(pod)
		wait(3 * time.Second)
		w.want("while the program of the probe fails", "p", "Running restarts=0 ready=false running")
		if got, code := w.exec("p", "sh", "-c", "dbctl a b; code=$?; cat /etc/version; touch /tmp/ok; exit $code"); got != "mine: a b\n17\n" || code != 7 {
			t.Errorf("%q with the exit code %d", got, code)
		}
		wait(3 * time.Second)
		w.want("when it succeeds", "p", "Running restarts=0 ready=true running")
	})
}

// TestParseScript: errors name the field.
func TestParseScript(t *testing.T) {
	for text, want := range map[string]string{
		"containers: [{image: a}, {image: b}, {name: a}, {name: a, image: b}]": "",
		"containers: [{image: a}, {image: a}]":                                 `containers[1].image: "a" has a script before`,
		"containers: [{name: a}, {name: a}]":                                   `containers[1].name: "a" has a script before`,
		"containers: [{files: {tmp: x}}]":                                      `containers[0].files: "tmp" is not the absolute path of a file`,
		"containers: [{files: {/a/../b: x}}]":                                  `containers[0].files: "/a/../b" is not the absolute path of a file`,
		"containers: [{files: {/: x}}]":                                        `containers[0].files: "/" is not the absolute path of a file`,
		"containers: [{files: {/a: x, /a/b/c: y}}]":                            `containers[0].files: "/a/b/c" is below the file "/a"`,
		"containers: [{files: {/a: " + strings.Repeat("x", 1<<20+1) + "}}]":    "containers[0].files: 1048577 bytes, more than 1048576",
		"evict: {after: 1s}":                                                   "evict: only the script of a pod can evict",
		"containers: [{imagee: a}]":                                            `unknown field "containers[0].imagee"`,
		"containers: [{command: ls}]":                                          "containers[0].command: a value of type array, not string",
	} {
		_, err := pods.ParseScript([]byte(text))
		if got := ""; err != nil {
			if got = err.Error(); want == "" || !strings.Contains(got, want) {
				t.Errorf("%.60s: %s", text, got)
			}
		} else if want != "" {
			t.Errorf("%.60s: no error", text)
		}
	}
}

// TestHookOfAnotherPod: a hook with the address of another pod reaches it.
func TestHookOfAnotherPod(t *testing.T) {
	withImages(t, `
containers:
- image: server
  command: [/serve]
  files:
    /serve: |
      #!/bin/sh
      [ "$1" = answer ] || exec nc -lk -p 80 -e /serve answer
      read -r method path _
      while read -r line && [ ${#line} -gt 1 ]; do :; done
      echo "$method $path" >&2
      printf 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
`, func(w *world) {
		w.CreateAll(controllerstest.Pod("server", "server"))
		wait(time.Second)
		caller := controllerstest.Pod("caller", "caller")
		caller.Spec.Containers[0].Command = []string{"sleep", "1000"}
		caller.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{
			HTTPGet: &corev1.HTTPGetAction{Host: w.Pod("server").Status.PodIP, Port: intstr.FromInt32(80), Path: "/hook?a=b"}}}
		w.CreateAll(caller)
		wait(time.Second)
		if got := w.logs("server", corev1.PodLogOptions{}); got != "GET /hook?a=b\n" {
			t.Errorf("the server's log is %q", got)
		}
		w.want("after the hook", "caller", "Running restarts=0 ready=true running")
	})
}

// TestNetwork: a process reaches pods by their addresses, by services and by names, and nothing else.
func TestNetwork(t *testing.T) {
	withImages(t, `
containers:
- image: server
  command: [/serve]
  files:
    /serve: |
      #!/bin/sh
      exec nc -lk -p 80 -e hostname
`, func(w *world) {
		server := controllerstest.Pod("server", "server")
		server.Labels = map[string]string{"app": "server"}
		server.Spec.Hostname, server.Spec.Subdomain = "first", "headless"
		server.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}
		w.CreateAll(server, controllerstest.Pod("client", "client"),
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{
				Selector: server.Labels, Type: corev1.ServiceTypeNodePort, SessionAffinity: corev1.ServiceAffinityClientIP,
				Ports: []corev1.ServicePort{{Port: 8080, TargetPort: intstr.FromString("http")}}}},
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "headless"}, Spec: corev1.ServiceSpec{
				Selector: server.Labels, ClusterIP: corev1.ClusterIPNone}},
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "empty"}, Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": "none"}, Ports: []corev1.ServicePort{{Port: 80}}}},
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "outside"}, Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}})
		wait(time.Second)
		service := &corev1.Service{}
		w.Must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, service))
		ip, port := w.Pod("server").Status.PodIP, service.Spec.Ports[0].NodePort
		for _, to := range []string{
			ip + " 80", "web 8080", "web.default 8080", "web.default.svc 8080", "WEB.default.svc.cluster.local. 8080", service.Spec.ClusterIP + " 8080",
			"headless 80", "first.headless.default.svc.cluster.local 80", strings.ReplaceAll(ip, ".", "-") + ".default.pod.cluster.local 80",
			fmt.Sprint(w.Pod("server").Status.HostIP, " ", port),
		} {
			if got, code := w.exec("client", "sh", "-c", "nc "+to); got != "first\n" || code != 0 {
				t.Errorf("nc %s: %q with the exit code %d", to, got, code)
			}
		}
		for _, to := range []string{
			ip + " 81", "web 80", "none 80", "empty 80", "outside 80", "second.headless.default.svc 80", "127.0.0.1 80", "localhost 80", "10.0.0.1 80",
			"example.com 80", "a.b.c.d.e 80", service.Spec.ClusterIP + " 80", w.Pod("server").Status.HostIP + " 80", "::1 80", "x.default.pod 80",
		} {
			if got, code := w.exec("client", "sh", "-c", "nc -w 1 "+to); code != 1 || !strings.Contains(got, "efused") && !strings.Contains(got, "no such host") {
				t.Errorf("nc %s: %q with the exit code %d", to, got, code)
			}
		}
		if got, code := w.exec("client", "nc", "-zv", "web", "8080"); got != "Connection to web 8080 port [tcp/*] succeeded!\n" || code != 0 {
			t.Errorf("nc -zv: %q with the exit code %d", got, code)
		}
	})
}

// TestRequestsOfAPod: wget and curl reach what listens, and are refused by a pod that nothing executes. Containers that may wait
// for such a pod succeed or run as without the two.
func TestRequestsOfAPod(t *testing.T) {
	withImages(t, `
containers:
- image: server
  command: [/serve]
  files:
    /serve: |
      #!/bin/sh
      exec nc -lk -p 80 -e /answer
    /answer: |
      #!/bin/sh
      read -r method path version
      echo "$method $path" >> /requests
      while read -r line && [ ${#line} -gt 1 ]; do :; done
      printf 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nup\n'
`, func(w *world) {
		service := func(name string) *corev1.Service {
			return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}}}}
		}
		pod := func(name, image string, command ...string) *corev1.Pod {
			p := controllerstest.Pod(name, image)
			p.Labels = map[string]string{"app": name}
			p.Spec.RestartPolicy, p.Spec.Containers[0].Command = corev1.RestartPolicyNever, command
			return p
		}
		l, err := w.Plane.Pods().Listen(runtime.Selector{Labels: "app=handled"}, 80)
		w.Must(err)
		server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			fmt.Fprintf(rw, "%s of %s: %s", r.Method, r.Host, b)
		})}
		go server.Serve(l)
		defer server.Close()
		w.CreateAll(service("server"), service("handled"), service("idle"), pod("server", "server"), pod("handled", "app"), pod("idle", "nginx"))
		wait(time.Second)

		waits := pod("waits", "app")
		waits.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "busybox", Command: []string{"wget", "-q", "idle"}},
			{Name: "loop", Image: "busybox", Command: []string{"sh", "-c", "until wget -q idle; do sleep 1; done"}}}
		probed := pod("probed", "app", "sleep", "1d")
		probed.Spec.Containers[0].LivenessProbe = &corev1.Probe{FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"curl", "-f", "localhost"}}}}
		for _, tt := range []struct {
			pod        *corev1.Pod
			state, log string
		}{
			{pod("wget", "busybox", "wget", "-qO-", "server:80"), "Succeeded restarts=0 ready=false Completed=0", "up\n"},
			{pod("curl", "curlimages/curl", "curl", "-sd", "a=b", "http://handled.default.svc"), "Succeeded restarts=0 ready=false Completed=0", "POST of handled.default.svc: a=b"},
			{pod("script", "busybox", "sh", "-c", "curl -s server | grep up && curl -s nowhere"), "Failed restarts=0 ready=false Error=6", "up\n"},
			{pod("idle-wget", "busybox", "wget", "idle"), "Failed restarts=0 ready=false Error=1", "Connecting to idle\nwget: can't connect to remote host: Connection refused\n"},
			{pod("outside", "busybox", "wget", "-q", "https://example.com"), "Failed restarts=0 ready=false Error=1", "wget: not an http or ftp url: https://example.com\n"},
			{pod("load", "busybox", "sh", "-c", "while true; do wget -q -O- http://idle; done"), "Running restarts=0 ready=true running", ""},
			{waits, "Running restarts=0 ready=true running", ""},
			{probed, "Running restarts=0 ready=true running", ""},
		} {
			w.CreateAll(tt.pod)
			wait(time.Minute)
			w.want("after its request", tt.pod.Name, tt.state)
			if got := w.logs(tt.pod.Name, corev1.PodLogOptions{}); got != tt.log {
				t.Errorf("the log of %s is %q, want %q", tt.pod.Name, got, tt.log)
			}
		}
		template := pod("", "busybox", "curl", "-f", "idle")
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "job"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: template.Spec}}}
		w.CreateAll(job)
		wait(time.Minute)
		if w.Must(w.Get(w.Context(), client.ObjectKeyFromObject(job), job)); job.Status.Succeeded != 1 {
			t.Errorf("the job is %+v", job.Status)
		}
		if got, code := w.exec("server", "cat", "/requests"); got != "GET /\nGET /\n" || code != 0 {
			t.Errorf("the server was asked for %q", got)
		}
	})
}

// TestFilesOfTheNode: a file of the node is the same for its pods, and /etc/hosts is kubelet's, the node's or mounted.
func TestFilesOfTheNode(t *testing.T) {
	withRuntime(t, func(w *world) {
		pod := func(name, path string, network bool) *corev1.Pod {
			p := controllerstest.Pod(name, "app:1")
			kind := corev1.HostPathFileOrCreate
			p.Spec.HostNetwork = network
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/original"}}
			return p
		}
		mounted := pod("mounted", "/etc/hosts", false)
		mounted.Spec.Containers[0].VolumeMounts[0].MountPath = "/etc/hosts"
		aliases := pod("aliases", "/var/lib/file", false)
		aliases.Spec.HostAliases = []corev1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"a", "b"}}}
		w.CreateAll(mounted, aliases, pod("network", "/etc/hosts", true), pod("other", "/var/lib/file", false))
		wait(time.Second)
		for _, step := range []struct{ pod, command, want string }{
			{"mounted", "cat /etc/hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost\n"},
			{"network", "cat /etc/hosts", "# Kubernetes-managed hosts file (host network).\n127.0.0.1\tlocalhost\n::1\tlocalhost\n"},
			{"network", "cmp /etc/hosts /original || echo other", "other\n"},
			{"aliases", "head -n 1 /etc/hosts; tail -n 3 /etc/hosts", "# Kubernetes-managed hosts file.\n\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n"},
			{"aliases", "cat /original; echo shared > /original", ""},
			{"other", "cat /original", "shared\n"},
			{"aliases", "grep original /proc/mounts", "ext4 /original ext4 rw 0 0\n"},
		} {
			if got, _ := w.exec(step.pod, "sh", "-c", step.command); !strings.HasSuffix(got, step.want) || step.want == "" && got != "" {
				t.Errorf("%s in %s: %q", step.command, step.pod, got)
			}
		}
	})
}
