package usage

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var start = time.Unix(1_000_000, 0)

func TestOf(t *testing.T) {
	const kwokCPU, kwokMemory = "kwok.x-k8s.io/usage-cpu", "kwok.x-k8s.io/usage-memory"
	for _, tt := range []struct {
		name        string
		annotations map[string]string
		container   string
		after       time.Duration
		want        string
	}{
		{"the default", nil, "a", 0, "1m 1Mi"},
		{"constants", map[string]string{Annotation: "cpu=250m,memory=64Mi"}, "a", time.Hour, "250m 64Mi"},
		{"a resource without a script", map[string]string{Annotation: " memory=64Mi "}, "a", 0, "1m 64Mi"},
		{"of another container", map[string]string{Annotation: "b/cpu=2"}, "a", 0, "1m 1Mi"},
		{"of this container, after that of all", map[string]string{Annotation: "cpu=250m, a/cpu=2"}, "a", 0, "2 1Mi"},
		{"of this container, before that of all", map[string]string{Annotation: "a/cpu=2, cpu=250m"}, "a", 0, "2 1Mi"},
		{"the first step", map[string]string{Annotation: "cpu=100m|1m:900m|10m:0"}, "a", 59 * time.Second, "100m 1Mi"},
		{"the second step", map[string]string{Annotation: "cpu=100m|1m:900m|10m:0"}, "a", time.Minute, "900m 1Mi"},
		{"the last step", map[string]string{Annotation: "cpu=100m|1m:900m|10m:0"}, "a", time.Hour, "0 1Mi"},
		{"before the start", map[string]string{Annotation: "cpu=100m|1m:900m"}, "a", -time.Hour, "0 1Mi"},
		{"invalid", map[string]string{Annotation: "cpu=x"}, "a", 0, "1m 1Mi"},
		{"of kwok", map[string]string{kwokCPU: "3", kwokMemory: "5Gi"}, "a", 0, "3 5Gi"},
		{"of kwok, invalid", map[string]string{kwokCPU: "-3", kwokMemory: "x"}, "a", 0, "1m 1Mi"},
		{"of both", map[string]string{Annotation: "cpu=250m", kwokCPU: "3", kwokMemory: "5Gi"}, "a", 0, "250m 5Gi"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: tt.annotations}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "a", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(start)}}}}
		list := Of(pod, tt.container, start.Add(tt.after))
		if got := fmt.Sprint(list.Cpu(), " ", list.Memory()); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                       `"": want RESOURCE=QUANTITY`,
		"cpu":                    `"cpu": want RESOURCE=QUANTITY`,
		"cpu=1,":                 `"": want RESOURCE=QUANTITY`,
		"gpu=1":                  `"gpu=1": the resource must be cpu or memory`,
		"/cpu=1":                 `"/cpu=1": want the name of a container before /`,
		"a/b/cpu=1":              `"a/b/cpu=1": the resource must be cpu or memory`,
		"cpu=-1":                 `"cpu=-1": the quantity "-1" is negative`,
		"cpu=1|2":                `"cpu=1|2": want DURATION:QUANTITY after |`,
		"cpu=1|x:2":              `"cpu=1|x:2": time: invalid duration "x"`,
		"cpu=1|1m:2|1m:3":        `"cpu=1|1m:2|1m:3": the durations must increase`,
		"cpu=1|0s:2":             `"cpu=1|0s:2": the durations must increase`,
		"cpu=1,memory=1,cpu=2":   `"cpu=2": the usage is given twice`,
		"cpu=1, a/cpu=2,b/cpu=3": "",
	} {
		_, err := Parse(text)
		if got := fmt.Sprint(err); err == nil && want != "" || err != nil && got != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// FuzzOf: no script makes the usage negative or fail.
func FuzzOf(f *testing.F) {
	for _, text := range []string{"cpu=1", "a/cpu=100m|1m:900m|10m:100m,memory=64Mi", "cpu=1e30", ",=|:/"} {
		f.Add(text, int64(time.Minute))
	}
	f.Fuzz(func(t *testing.T, text string, after int64) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{Annotation: text, "kwok.x-k8s.io/usage-cpu": text}}}
		list := Of(pod, "a", start.Add(time.Duration(after)))
		if len(list) != 2 || list.Cpu().Sign() < 0 || list.Memory().Sign() < 0 {
			t.Errorf("%q: %v", text, list)
		}
	})
}
