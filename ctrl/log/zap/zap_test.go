package zap

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// TestObjects checks the text of objects, both as values of a line and as
// values that a logger carries.
func TestObjects(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}, Spec: corev1.PodSpec{NodeName: "hidden"}}
	node := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}, StringData: map[string]string{"password": "hidden"}}
	loose := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "x"}, "data": "hidden"}}
	tests := []struct {
		name    string
		value   any
		want    string // JSON of the value
		whole   bool   // "hidden" is written in development mode
		wantErr bool
	}{
		{name: "pod", value: pod, want: `{"namespace":"a","name":"x"}`, whole: true},
		{name: "node", value: node, want: `{"apiVersion":"v1","kind":"Node","name":"x"}`},
		{name: "secret", value: secret, want: `{"namespace":"a","name":"x"}`},
		{name: "unstructured secret", value: loose, want: `{"apiVersion":"v1","kind":"Secret","name":"x"}`},
		{name: "list", value: &corev1.SecretList{Items: []corev1.Secret{*secret}}, want: `{"type":"*v1.SecretList"}`},
		{name: "name", value: types.NamespacedName{Namespace: "a", Name: "x"}, want: `{"name":"x","namespace":"a"}`},
		{name: "nil", value: (*corev1.Pod)(nil), wantErr: true},
		{name: "nil unstructured", value: (*unstructured.Unstructured)(nil), wantErr: true},
		{name: "no object", value: "text", want: `"text"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			l := New(WriteTo(&out))
			l.Info("line", "obj", tt.value)
			l.WithValues("obj", tt.value).Info("carried")
			for line := range strings.Lines(out.String()) {
				var got map[string]json.RawMessage
				if err := json.Unmarshal([]byte(line), &got); err != nil {
					t.Fatalf("%v in %q", err, line)
				}
				if tt.wantErr {
					if got["objError"] == nil {
						t.Errorf("no error in %s", line)
					}
				} else if string(got["obj"]) != tt.want {
					t.Errorf("got %s\nwant %s", got["obj"], tt.want)
				}
			}

			var dev bytes.Buffer
			l = New(WriteTo(&dev), UseDevMode(true))
			l.Info("line", "obj", tt.value)
			l.WithValues("obj", tt.value).Info("carried")
			if n := strings.Count(dev.String(), "hidden"); n != map[bool]int{true: 2}[tt.whole] {
				t.Errorf("in development mode: %s", &dev)
			}
		})
	}
}

// TestFieldsStay checks that the encoder leaves its caller's fields alone.
func TestFieldsStay(t *testing.T) {
	var obj runtime.Object = &corev1.Pod{}
	fields := []zapcore.Field{{Key: "n", Type: zapcore.Int64Type}, {Key: "obj", Type: zapcore.ReflectType, Interface: obj}}
	enc := &KubeAwareEncoder{Encoder: newJSONEncoder()}
	if _, err := enc.Clone().EncodeEntry(zapcore.Entry{}, fields); err != nil {
		t.Fatal(err)
	}
	if fields[1].Type != zapcore.ReflectType || fields[1].Interface != obj {
		t.Errorf("fields are now %v", fields)
	}
}

func TestModes(t *testing.T) {
	var out bytes.Buffer
	l := New(WriteTo(&out))
	l.V(1).Info("debug")
	if out.Len() > 0 {
		t.Errorf("production writes debug: %s", &out)
	}
	l.Error(errors.New("no"), "failed")
	if !strings.Contains(out.String(), "stacktrace") {
		t.Errorf("no stack trace: %s", &out)
	}

	out.Reset()
	l = New(WriteTo(&out), UseDevMode(true))
	l.V(1).Info("debug")
	if !strings.Contains(out.String(), "DEBUG") {
		t.Errorf("development: %s", &out)
	}

	// Production samples what repeats, unless the level is more verbose than debug.
	for level, want := range map[zapcore.Level]int{zapcore.InfoLevel: 100 + 1, -3: 200} {
		out.Reset()
		l = New(WriteTo(&out), Level(level))
		for range 200 {
			l.Info("again")
		}
		if got := strings.Count(out.String(), "again"); got != want {
			t.Errorf("level %d: %d lines, want %d", level, got, want)
		}
	}
}

func TestFlags(t *testing.T) {
	tests := []struct {
		args []string
		ok   bool
		want string // in the line of l.V(3).Info("x")
	}{
		{[]string{"-zap-log-level=3", "-zap-time-encoding=epoch"}, true, `"level":"Level(-3)"`},
		{[]string{"-zap-log-level=3", "-zap-encoder=console"}, true, "\tLEVEL(-3)\t"},
		{[]string{"-zap-devel", "-zap-log-level=3"}, true, "LEVEL(-3)"},
		{[]string{"-zap-log-level=debug"}, true, ""},
		{[]string{"-zap-log-level=2"}, true, ""},
		{[]string{"-zap-log-level=ERROR", "-zap-stacktrace-level=panic", "-zap-time-encoding=nano"}, true, ""},
		{[]string{"-zap-log-level=0"}, false, ""},
		{[]string{"-zap-log-level=-1"}, false, ""},
		{[]string{"-zap-log-level=300"}, false, ""},
		{[]string{"-zap-log-level=loud"}, false, ""},
		{[]string{"-zap-encoder=xml"}, false, ""},
		{[]string{"-zap-stacktrace-level=debug"}, false, ""},
		{[]string{"-zap-time-encoding=sundial"}, false, ""},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var o Options
			fs := flag.NewFlagSet("", flag.ContinueOnError)
			fs.SetOutput(io.Discard)
			o.BindFlags(fs)
			if err := fs.Parse(tt.args); (err == nil) != tt.ok {
				t.Fatalf("error %v", err)
			}
			if !tt.ok {
				return
			}
			var out bytes.Buffer
			New(UseFlagOptions(&o), WriteTo(&out)).V(3).Info("x")
			if (out.Len() > 0) != (tt.want != "") || !strings.Contains(out.String(), tt.want) {
				t.Errorf("wrote %q, want %q", &out, tt.want)
			}
		})
	}
}
