// Command metrics prints the metrics in the registry, each with its labels.
package main

import (
	"fmt"
	"log"
	"regexp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	_ "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	_ "sigs.k8s.io/controller-runtime/pkg/webhook"
	_ "sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

var description = regexp.MustCompile(`fqName: "(.*?)".*variableLabels: (\{.*?\})`)

func main() {
	registry, ok := metrics.Registry.(prometheus.Collector)
	if !ok {
		log.Fatalf("%T does not describe its metrics", metrics.Registry)
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		registry.Describe(descriptions)
	}()
	var lines []string
	for d := range descriptions {
		m := description.FindStringSubmatch(d.String())
		lines = append(lines, m[1]+m[2])
	}
	slices.Sort(lines)
	for _, line := range slices.Compact(lines) {
		fmt.Println(line)
	}
}
