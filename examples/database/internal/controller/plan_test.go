package controller

import (
	"errors"
	"testing"

	dbv1 "flyball.dev/examples/database/api/v1"
	"flyball.dev/examples/database/internal/backup"
)

// newDatabase returns a Database with three instances that is to have version 17.6.
func newDatabase() *dbv1.Database {
	db := &dbv1.Database{}
	db.Name = "db"
	db.Spec = dbv1.DatabaseSpec{Engine: dbv1.Postgres, Version: "17.6", Replicas: 3, SecretName: "s"}
	return db
}

// running returns the observation when all instances run a version and db-0 is the primary.
func running(version string) *observed {
	o := &observed{set: true, replicas: 3, version: version, current: true, primary: "db-0", vault: backup.Ready}
	for i := range 3 {
		o.instances = append(o.instances, instance{
			name: instanceOf(newDatabase(), i), ordinal: int32(i), version: version, ready: true,
		})
	}
	return o
}

// upgrading returns the observation when the template has the version 17.6, and the instances with
// these ordinals still run 17.5.
func upgrading(outdated ...int) *observed {
	o := running("17.6")
	for _, i := range outdated {
		o.instances[i].version, o.instances[i].outdated = "17.5", true
	}
	return o
}

func TestNext(t *testing.T) {
	down := errors.New("503")
	type want struct {
		reason   string
		apply    bool
		version  string
		replicas int32
		primary  string
		vault    bool
		snapshot string
		stop     string
		poll     bool
		retry    bool
	}
	for _, tt := range []struct {
		name   string
		o      *observed
		change func(*dbv1.Database, *observed)
		want   want
	}{
		{"a name is taken", running("17.5"), func(_ *dbv1.Database, o *observed) { o.taken = "the Service db" },
			want{reason: "NameTaken", retry: true}},
		{"new, without a Secret", &observed{secret: "none"}, nil,
			want{reason: "SecretNotReady", version: "17.6", replicas: 3, primary: "db-0", retry: true}},
		{"without a vault", &observed{}, nil,
			want{reason: "VaultPending", version: "17.6", replicas: 3, primary: "db-0", vault: true, poll: true}},
		{"the vault is pending", &observed{vault: backup.Pending}, nil,
			want{reason: "VaultPending", version: "17.6", replicas: 3, primary: "db-0", poll: true}},
		{"the backup service is down", &observed{backupErr: down}, nil,
			want{reason: "BackupServiceUnavailable", version: "17.6", replicas: 3, primary: "db-0"}},
		{"all is there", &observed{vault: backup.Ready}, nil,
			want{reason: "Creating", apply: true, version: "17.6", replicas: 3, primary: "db-0"}},

		{"running", running("17.6"), nil, want{apply: true, version: "17.6", replicas: 3, primary: "db-0"}},
		{"running, and the Secret is gone", running("17.6"),
			func(_ *dbv1.Database, o *observed) { o.secret = "none" },
			want{reason: "SecretNotReady", version: "17.6", replicas: 3, primary: "db-0", retry: true}},
		{"running, and the backup service is down", running("17.6"),
			func(_ *dbv1.Database, o *observed) { o.backupErr = down },
			want{apply: true, version: "17.6", replicas: 3, primary: "db-0"}},
		{"running, and the vault is gone", running("17.6"),
			func(_ *dbv1.Database, o *observed) { o.vault = backup.Absent },
			want{apply: true, version: "17.6", replicas: 3, primary: "db-0", vault: true, poll: true}},
		{"a replica is not ready", running("17.6"),
			func(_ *dbv1.Database, o *observed) { o.instances[1].ready = false },
			want{reason: "InstancesNotReady", apply: true, version: "17.6", replicas: 3, primary: "db-0"}},
		{"a replica is missing", running("17.6"),
			func(_ *dbv1.Database, o *observed) { o.instances = o.instances[:2] },
			want{reason: "InstancesNotReady", apply: true, version: "17.6", replicas: 3, primary: "db-0"}},

		{"the primary is not ready", running("17.6"),
			func(_ *dbv1.Database, o *observed) { o.instances[0].ready = false },
			want{reason: "FailingOver", apply: true, version: "17.6", replicas: 3, primary: "db-1"}},
		{"the primary is gone, and the Secret and the backup service too", running("17.6"),
			func(_ *dbv1.Database, o *observed) {
				o.instances, o.secret, o.backupErr = o.instances[1:], "none", down
			},
			want{reason: "FailingOver", version: "17.6", replicas: 3, primary: "db-1"}},
		{"nobody can take over", running("17.6"),
			func(_ *dbv1.Database, o *observed) { o.instances = nil },
			want{reason: "InstancesNotReady", apply: true, version: "17.6", replicas: 3, primary: "db-0"}},

		{"scaled up", running("17.6"), func(db *dbv1.Database, _ *observed) { db.Spec.Replicas = 4 },
			want{reason: "InstancesNotReady", apply: true, version: "17.6", replicas: 4, primary: "db-0"}},
		{"scaled down", running("17.6"), func(db *dbv1.Database, _ *observed) { db.Spec.Replicas = 2 },
			want{reason: "InstancesNotReady", apply: true, version: "17.6", replicas: 2, primary: "db-0"}},
		{"scaled down, and the primary is one too many", running("17.6"),
			func(db *dbv1.Database, o *observed) { db.Spec.Replicas, o.primary = 2, "db-2" },
			want{reason: "Promoting", apply: true, version: "17.6", replicas: 3, primary: "db-0"}},

		{"an upgrade", running("17.5"), nil,
			want{reason: "TakingSnapshot", apply: true, version: "17.5", replicas: 3, primary: "db-0",
				snapshot: "17.5-to-17.6", poll: true}},
		{"an upgrade, and the backup service is down", running("17.5"),
			func(_ *dbv1.Database, o *observed) { o.backupErr = down },
			want{reason: "BackupServiceUnavailable", apply: true, version: "17.5", replicas: 3, primary: "db-0"}},
		{"the snapshot is pending", running("17.5"),
			func(_ *dbv1.Database, o *observed) { o.snapshot = backup.Pending },
			want{reason: "TakingSnapshot", apply: true, version: "17.5", replicas: 3, primary: "db-0", poll: true}},
		{"the snapshot is there", running("17.5"),
			func(_ *dbv1.Database, o *observed) { o.snapshot = backup.Ready },
			want{reason: "Updating", apply: true, version: "17.6", replicas: 3, primary: "db-0"}},
		{"the template is changed, but not seen", upgrading(0, 1, 2),
			func(_ *dbv1.Database, o *observed) { o.current = false },
			want{reason: "Updating", apply: true, version: "17.6", replicas: 3, primary: "db-0"}},
		{"all instances are outdated", upgrading(0, 1, 2), nil,
			want{reason: "Upgrading", apply: true, version: "17.6", replicas: 3, primary: "db-0", stop: "db-2"}},
		{"a replica is being stopped", upgrading(0, 1, 2),
			func(_ *dbv1.Database, o *observed) { o.instances[2].ready, o.instances[2].stopping = false, true },
			want{reason: "InstancesNotReady", apply: true, version: "17.6", replicas: 3, primary: "db-0"}},
		{"an upgraded replica is not ready", upgrading(0, 1),
			func(_ *dbv1.Database, o *observed) { o.instances[2].ready = false },
			want{reason: "InstancesNotReady", apply: true, version: "17.6", replicas: 3, primary: "db-0"}},
		{"an upgraded replica has failed, and there is a newer version", upgrading(0, 1),
			func(_ *dbv1.Database, o *observed) { o.instances[2].ready, o.instances[2].outdated = false, true },
			want{reason: "ReplacingInstance", apply: true, version: "17.6", replicas: 3, primary: "db-0", stop: "db-2"}},
		{"one replica is upgraded", upgrading(0, 1), nil,
			want{reason: "Upgrading", apply: true, version: "17.6", replicas: 3, primary: "db-0", stop: "db-1"}},
		{"all replicas are upgraded", upgrading(0), nil,
			want{reason: "Promoting", apply: true, version: "17.6", replicas: 3, primary: "db-1"}},
		{"an upgraded replica is promoted", upgrading(0),
			func(_ *dbv1.Database, o *observed) { o.primary = "db-1" },
			want{reason: "Upgrading", apply: true, version: "17.6", replicas: 3, primary: "db-1", stop: "db-0"}},
		{"the primary fails during an upgrade", upgrading(0, 1),
			func(_ *dbv1.Database, o *observed) { o.instances[0].ready = false },
			want{reason: "FailingOver", apply: true, version: "17.6", replicas: 3, primary: "db-2"}},
		{"the image is changed by hand", running("17.6"),
			func(_ *dbv1.Database, o *observed) { o.version = "1.0" },
			want{reason: "Updating", apply: true, version: "17.6", replicas: 3, primary: "db-0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := newDatabase()
			if tt.change != nil {
				tt.change(db, tt.o)
			}
			p := next(db, tt.o)
			got := want{p.reason, p.apply, p.version, p.replicas, p.primary, p.createVault, p.snapshot, "", p.poll, p.retry}
			if p.stop != nil {
				got.stop = p.stop.name
			}
			if got != tt.want {
				t.Errorf("\n got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}
