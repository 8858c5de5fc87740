package apiserver_test

import (
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/controlplane"
)

// TestMetrics reads the metrics that dashboards of kube-apiserver show, as a user who may, and as
// one who may not.
func TestMetrics(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true, Tokens: map[string]*user.DefaultInfo{
		"monitor": {Name: "prometheus", Groups: []string{user.MonitoringGroup}}, "guest": {Name: "guest"}}})
	client := controlplanetest.ClientFor(t, plane.Config())
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "metrics"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("10")}}}
	if _, err := client.CoreV1().ResourceQuotas("default").Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "metrics"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	<-w.ResultChan()

	read := func(token, path string) (int, string) {
		cfg := plane.Config()
		cfg.BearerToken = token
		code, body := controlplanetest.Sender(t, cfg)(http.MethodGet, path, "", "")
		return code, string(body)
	}
	if code, body := read("guest", "/metrics"); code != http.StatusForbidden {
		t.Errorf("a user without the role: %d %.100s", code, body)
	}
	code, body := read("monitor", "/metrics")
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	for _, want := range []string{
		`apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="configmaps",scope="resource",subresource="",verb="POST",version="v1"}`,
		`apiserver_request_duration_seconds_bucket{component="apiserver",dry_run="",group="",resource="configmaps",scope="resource",subresource="",verb="POST",version="v1",le="0.1"}`,
		`apiserver_request_sli_duration_seconds_count{component="apiserver",group="",resource="configmaps",`,
		`apiserver_current_inflight_requests{request_kind="readOnly"} 1`,
		`apiserver_current_inflight_requests{request_kind="mutating"} 0`,
		`apiserver_longrunning_requests{component="apiserver",group="",resource="configmaps",scope="namespace",subresource="",verb="WATCH",version="v1"} 1`,
		`apiserver_watch_events_total{group="",resource="configmaps",version="v1"}`,
		`apiserver_storage_objects{resource="configmaps"} `,
		`apiserver_resource_objects{group="",resource="configmaps"} `,
		`apiserver_admission_step_admission_duration_seconds_count{operation="CREATE",rejected="false",type="admit"}`,
		`apiserver_admission_controller_admission_duration_seconds_count{name="ResourceQuota",operation="CREATE",rejected="false",type="validate"}`,
		`authentication_attempts{result="success"}`,
		`authorization_attempts_total{result="no-opinion"}`,
		`flyball_storage_history_bytes `,
		`process_resident_memory_bytes `,
		`go_goroutines `,
	} {
		if !strings.Contains(body, "\n"+want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(body, "\nflyball_storage_history_bytes 0\n") {
		t.Error("the storage has no history")
	}
	if code, body := read("monitor", "/livez?verbose"); code != http.StatusOK {
		t.Errorf("/livez: %d %s", code, body)
	}
	if code, body := read("", "/"); code != http.StatusOK || !strings.Contains(body, `"/apis/apps/v1"`) || !strings.Contains(body, `"/readyz/ping"`) {
		t.Errorf("/: %d %.200s", code, body)
	}
}

// TestRunningMetrics compares the table of metrics in docs/running.md with a server.
func TestRunningMetrics(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true, Listen: "127.0.0.1:0"})
	cfg, err := clientcmd.RESTConfigFromKubeConfig(plane.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	send := controlplanetest.Sender(t, cfg) // by a client certificate
	for _, request := range [][2]string{
		{http.MethodPost, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}}`},
		{http.MethodGet, ""},
	} {
		if code, body := send(request[0], "/api/v1/namespaces/default/configmaps", "application/json", request[1]); code >= 400 {
			t.Fatal(code, string(body))
		}
	}
	w, err := controlplanetest.ClientFor(t, plane.Config()).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	<-w.ResultChan()
	code, body := send(http.MethodGet, "/metrics", "", "")
	if code != http.StatusOK {
		t.Fatal(code, string(body))
	}
	document, err := os.ReadFile("../docs/running.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(document), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	names := 0
	for line := range strings.Lines(section) {
		row, isRow := strings.CutPrefix(line, "| `")
		if !isRow {
			continue
		}
		column, _, _ := strings.Cut(row, " |")
		for name := range strings.SplitSeq(strings.TrimSuffix(column, "`"), "`, `") {
			names++
			if strings.HasPrefix(name, "process_") && runtime.GOOS != "linux" {
				continue
			}
			if !strings.Contains(string(body), "\n# TYPE "+name+" ") {
				t.Errorf("/metrics has no %s", name)
			}
		}
	}
	if names < 10 {
		t.Errorf("the table has %d metrics", names)
	}
}
