package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/bench/fixture"
	"flyball.dev/bench/measure"
)

// peerVariable names the kubeconfig of a server that gets are compared with.
const peerVariable = "FLYBALL_BENCH_PEER"

// target is a sequence of objects on one server.
type target struct {
	name  string
	https *http.Client
	url   string // without the number of an object
	times []time.Duration
}

// customGets creates n custom resources, and as many ConfigMaps of the same content, on the server and on the peer, if there is
// one. It prints the times of reading each of them, when nobody has used them for a minute, and at once again. The gets of all
// alternate, so that the load of the machine meets them equally.
func customGets(ctx context.Context, s *server, n int) error {
	configs := map[string]*rest.Config{"": s.config}
	if file := os.Getenv(peerVariable); file != "" {
		peer, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			return err
		}
		peer.QPS = -1
		configs["peer, "] = peer
	}
	var targets []*target
	for name, config := range configs {
		if err := createReadable(ctx, config, n); err != nil {
			return err
		}
		https, err := rest.HTTPClientFor(config)
		if err != nil {
			return err
		}
		defer https.CloseIdleConnections()
		targets = append(targets,
			&target{name: name + "custom", https: https, url: config.Host + widgetsPath + "/w-%06d"},
			&target{name: name + "typed", https: https, url: config.Host + "/api/v1/namespaces/default/configmaps/w-%06d"})
	}
	if err := sleep(ctx, idleTime); err != nil {
		return err
	}
	for _, when := range []string{"idle", "again"} {
		for i := range n {
			for _, t := range targets {
				began := time.Now()
				if _, err := get(ctx, t.https, fmt.Sprintf(t.url, i)); err != nil {
					return err
				}
				t.times = append(t.times, time.Since(began))
			}
		}
		for _, t := range targets {
			fmt.Printf("%s, %s: p50 %.2f ms, p99 %.2f ms\n", t.name, when, measure.Quantile(t.times, 0.5)/1e6, measure.Quantile(t.times, 0.99)/1e6)
			t.times = nil
		}
	}
	return nil
}

// createReadable creates the objects that customGets reads.
func createReadable(ctx context.Context, config *rest.Config, n int) error {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	widgets, err := defineWidgets(ctx, objects)
	if err != nil {
		return err
	}
	return fixture.Parallel(ctx, n, func(ctx context.Context, i int) error {
		w := widget(i)
		text, err := w.MarshalJSON()
		if err != nil {
			return err
		}
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: w.GetName()}, Data: map[string]string{"widget": string(text)}}
		if _, err := typed.CoreV1().ConfigMaps("default").Create(ctx, c, metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err = widgets.Create(ctx, w, metav1.CreateOptions{})
		return err
	})
}
