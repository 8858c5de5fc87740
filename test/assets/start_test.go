package assets

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// BenchmarkStart measures controller-runtime's envtest on the programs: until the first write, and the
// stop.
func BenchmarkStart(b *testing.B) {
	programs := *dir
	if programs == "" {
		programs = standIns(b)
	}
	var stopping time.Duration
	for b.Loop() {
		env := &envtest.Environment{BinaryAssetsDirectory: programs}
		config, err := env.Start()
		if err != nil {
			b.Fatal(err)
		}
		c, err := client.New(config, client.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Create(b.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "first", Namespace: "default"}}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		started := time.Now()
		if err := env.Stop(); err != nil {
			b.Fatal(err)
		}
		stopping += time.Since(started)
		b.StartTimer()
	}
	b.ReportMetric(float64(stopping.Milliseconds())/float64(b.N), "ms/stop")
}
