package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkChanges measures the CPU time of recording a change of a pod of about 2 KB, from the frame of a watch on. TestSize logs the
// bytes of a recording for each byte of JSON.
func BenchmarkChanges(b *testing.B) {
	frames := podFrames(b, 1000)
	events := 0
	w, err := NewWriter(io.Discard, Header{Began: time.Now()})
	if err != nil {
		b.Fatal(err)
	}
	redactor, err := NewRedactor(SecretFields)
	if err != nil {
		b.Fatal(err)
	}
	s := &stream{cluster: &Cluster{out: w, options: Options{Redactor: redactor}}, resource: pods, known: map[Key]version{}}
	before := cpu()
	for b.Loop() {
		for i, f := range frames {
			if err := s.event(f); err != nil {
				b.Fatal(err)
			}
			if events++; i%100 == 99 {
				if err := w.Flush(); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	spent := cpu() - before
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(spent.Microseconds())/float64(events), "cpu-µs/change")
}

// cpu returns the CPU time of the process.
func cpu() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// podFrames returns frames of a watch: changes of the status of pods with different names, UIDs and times.
func podFrames(tb testing.TB, n int) [][]byte {
	frames := make([][]byte, n)
	for i := range frames {
		name := fmt.Sprintf("web-%x-%05x", i%40*7919, i%200*104729)
		now := metav1.NewTime(began.Add(time.Duration(i) * 13 * time.Second))
		pod := &corev1.Pod{
			TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "0b5d1ff5-" + "4c2e-4e5b-9a53-" + "0123456789ab", ResourceVersion: fmt.Sprint(100000 + i),
				CreationTimestamp: now, Labels: map[string]string{"app": "web", "pod-template-hash": fmt.Sprintf("%x", i%40*7919)}},
			Spec:   corev1.PodSpec{NodeName: fmt.Sprint("node-", i%17), Containers: []corev1.Container{{Name: "web", Image: "registry.example.com/team/web:1.2.3"}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.0.%d.%d", i%250, i*7%250)},
		}
		for j := range 8 {
			pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprint("SETTING_", j), Value: fmt.Sprintf("%x", (i%200)*j*2654435761)})
		}
		for _, c := range []corev1.PodConditionType{"Ready", "Initialized", "PodScheduled", "ContainersReady"} {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: c, Status: "True", LastTransitionTime: now})
		}
		for _, manager := range []string{"kube-controller-manager", "kubelet"} {
			fields := `{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}}},"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:podIP":{},"f:phase":{}}}`
			pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", APIVersion: "v1", Time: &now,
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)})
		}
		object, err := json.Marshal(pod)
		if err != nil {
			tb.Fatal(err)
		}
		frames[i] = fmt.Appendf(nil, `{"type":"MODIFIED","object":%s}`+"\n", object)
	}
	return frames
}

// TestSize: a recording has at most a fifth of the bytes of the JSON.
func TestSize(t *testing.T) {
	frames := podFrames(t, 500)
	var file bytes.Buffer
	w, err := NewWriter(&file, Header{Began: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	s := &stream{cluster: &Cluster{out: w, options: Options{Redactor: &Redactor{}}}, resource: pods, known: map[Key]version{}}
	for i, f := range frames {
		size += len(f)
		if err := s.event(f); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 { // few changes a second are the worst case
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if 5*file.Len() > size {
		t.Errorf("%d bytes of JSON are %d of a recording", size, file.Len())
	}
	t.Logf("%d bytes of JSON are %d of a recording: %.3f", size, file.Len(), float64(file.Len())/float64(size))
}
