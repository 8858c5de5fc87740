package crd_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// BenchmarkDefine is a definition and its first resource.
func BenchmarkDefine(b *testing.B) {
	s := newServer(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprintf("kind%d", i)
		s.define(strings.NewReplacer("apps", name+"s", "app,", name+",", "AppList", name+"List", "App,", name+",").Replace(apps))
		s.want(201, "POST", "/apis/example.com/v1/namespaces/default/"+name+"s", "{apiVersion: example.com/v1, kind: "+name+", metadata: {name: a}, spec: {image: x}}")
	}
}

const created = `{"apiVersion":"example.com/v1","kind":"App","metadata":{"generateName":"a-","labels":{"app":"a","tier":"web"}},"spec":{"image":"nginx:1.25","replicas":3,"ports":[{"name":"http","port":80},{"name":"https","port":443}],"class":"gold"}}`

func BenchmarkCreate(b *testing.B) {
	s := newApps(b)
	b.ReportAllocs()
	for b.Loop() {
		s.want(201, "POST", appsPath, created)
	}
}

func BenchmarkCreateParallel(b *testing.B) {
	s := newApps(b)
	b.ReportAllocs()
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.want(201, "POST", appsPath, created)
		}
	})
}

func BenchmarkUpdate(b *testing.B) {
	s := newApps(b)
	s.want(201, "POST", appsPath, app("a", "{image: x}"))
	var n atomic.Int64
	b.ReportAllocs()
	for b.Loop() {
		s.want(200, "PATCH", appsPath+"/a", fmt.Sprintf(`{"spec":{"replicas":%d}}`, 2+n.Add(1)), mergePatch...)
	}
}

func BenchmarkGet(b *testing.B) {
	s := newApps(b)
	s.want(201, "POST", appsPath, app("a", "{image: x}"))
	b.ReportAllocs()
	for b.Loop() {
		s.want(200, "GET", appsPath+"/a", "")
	}
}
