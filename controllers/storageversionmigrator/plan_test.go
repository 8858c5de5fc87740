package storageversionmigrator

import (
	"testing"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNext(t *testing.T) {
	migration := func(name string, age int, resource string, version string, conditions ...storagemigrationv1.MigrationConditionType) storagemigrationv1.StorageVersionMigration {
		m := storagemigrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1000-int64(age), 0))}}
		m.Spec.Resource.Resource = resource
		m.Status.ResourceVersion = version
		for _, c := range conditions {
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: string(c), Status: metav1.ConditionTrue})
		}
		return m
	}
	const running, succeeded, failed = storagemigrationv1.MigrationRunning, storagemigrationv1.MigrationSucceeded, storagemigrationv1.MigrationFailed
	for _, tt := range []struct {
		name   string
		m      storagemigrationv1.StorageVersionMigration
		others []storagemigrationv1.StorageVersionMigration
		want   step
	}{
		{"alone", migration("a", 1, "pods", ""), nil, begin},
		{"of another resource", migration("a", 1, "pods", ""), []storagemigrationv1.StorageVersionMigration{migration("b", 2, "secrets", "", running)}, begin},
		{"older", migration("a", 2, "pods", ""), []storagemigrationv1.StorageVersionMigration{migration("b", 1, "pods", "")}, begin},
		{"younger", migration("a", 1, "pods", ""), []storagemigrationv1.StorageVersionMigration{migration("b", 2, "pods", "")}, wait},
		{"of the same age", migration("b", 1, "pods", ""), []storagemigrationv1.StorageVersionMigration{migration("a", 1, "pods", "")}, wait},
		{"older than the one that runs", migration("a", 2, "pods", ""), []storagemigrationv1.StorageVersionMigration{migration("b", 1, "pods", "", running)}, wait},
		{"after one that has ended", migration("a", 1, "pods", ""), []storagemigrationv1.StorageVersionMigration{migration("b", 2, "pods", "1", succeeded), migration("c", 2, "pods", "1", running, failed)}, begin},
		{"without a resource version", migration("a", 1, "pods", "", running), nil, fix},
		{"with a resource version", migration("a", 1, "pods", "5", running), nil, rewrite},
		{"succeeded", migration("a", 1, "pods", "5", running, succeeded), nil, finish},
		{"failed", migration("a", 1, "pods", "", running, failed), nil, finish},
		{"ended", migration("a", 1, "pods", "5", succeeded), nil, complete},
	} {
		if got := next(&tt.m, append(tt.others, tt.m)); got != tt.want {
			t.Errorf("%s: step %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestMessage(t *testing.T) {
	for p, want := range map[progress]string{
		{}:                   "The migration is running",
		{left: 2, total: 10}: "The migration is running, 2/10 objects not yet migrated",
		{total: 10}:          "The migration is running, 10 objects verified migrated",
	} {
		if got := p.message(nil); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}
