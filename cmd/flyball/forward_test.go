package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controlplane"
)

func TestParseForward(t *testing.T) {
	for _, tt := range []struct {
		text    string
		pods    runtime.Selector
		port    int32
		address string
		err     string
	}{
		{text: "db:5432=15432", pods: runtime.Selector{Pod: "db"}, port: 5432, address: "127.0.0.1:15432"},
		{text: "shop/db-0:5432=127.0.0.1:15432", pods: runtime.Selector{Namespace: "shop", Pod: "db-0"}, port: 5432, address: "127.0.0.1:15432"},
		{text: "app=db,tier!=web:5432=[::1]:1", pods: runtime.Selector{Labels: "app=db,tier!=web"}, port: 5432, address: "[::1]:1"},
		{text: "shop/app in (a,b):80=:81", pods: runtime.Selector{Namespace: "shop", Labels: "app in (a,b)"}, port: 80, address: "127.0.0.1:81"},
		{text: "app.kubernetes.io/name=db:80=81", pods: runtime.Selector{Labels: "app.kubernetes.io/name=db"}, port: 80, address: "127.0.0.1:81"},
		{text: "shop/app.kubernetes.io/name=db:80=81", pods: runtime.Selector{Namespace: "shop", Labels: "app.kubernetes.io/name=db"}, port: 80, address: "127.0.0.1:81"},
		{text: "db", err: "the form is [NAMESPACE/]PODS:PORT=[HOST:]PORT"},
		{text: "db=80", err: "the form is [NAMESPACE/]PODS:PORT=[HOST:]PORT"},
		{text: ":80=81", err: "there is no name of a pod, and no selector of labels"},
		{text: "shop/:80=81", err: "there is no name of a pod, and no selector of labels"},
		{text: "db:http=81", err: `"http" is not a port`},
		{text: "db:0=81", err: "0 is not a port: it must be between 1 and 65535, inclusive"},
		{text: "db:80=", err: `"" is not a port`},
		{text: "db:80=host:99999", err: "99999 is not a port"},
		{text: "a b=:80=81", err: `"a b=" is neither the name of a pod nor a selector of labels`},
	} {
		pods, port, address, err := parseForward(tt.text)
		if err != nil || tt.err != "" {
			if err == nil || tt.err == "" || !strings.HasPrefix(err.Error(), tt.err) {
				t.Errorf("%s: got %v, want %s", tt.text, err, tt.err)
			}
			continue
		}
		if pods != tt.pods || port != tt.port || address != tt.address {
			t.Errorf("%s: %+v, %d, %s", tt.text, pods, port, address)
		}
	}
}

func TestPortFlags(t *testing.T) {
	for _, tt := range []struct{ args, err string }{
		{"", ""},
		{"--forward a:80=81 --forward app=b:80=82 --loopback-ports 9443,9444", ""},
		{"--forward a", "--forward a: the form is [NAMESPACE/]PODS:PORT=[HOST:]PORT"},
		{"--loopback-ports 0", "--loopback-ports: 0 is not a port"},
	} {
		var f portFlags
		flags := pflag.NewFlagSet("up", pflag.ContinueOnError)
		f.add(flags)
		if err := flags.Parse(strings.Fields(tt.args)); err != nil {
			t.Fatal(err)
		}
		var o controlplane.Options
		err := f.apply(&o)
		if tt.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
				t.Errorf("%s: got %v, want %s", tt.args, err, tt.err)
			}
			continue
		}
		if err != nil || o.Controllers.Pods.Handlers.Empty() != (tt.args == "") || (len(o.LoopbackPorts) == 2) != (tt.args != "") {
			t.Errorf("%s: %v, %+v", tt.args, err, o)
		}
	}
}
