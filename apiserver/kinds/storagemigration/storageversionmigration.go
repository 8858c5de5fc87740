// Package storagemigration describes the kinds of the storagemigration.k8s.io API group.
package storagemigration

import (
	"strings"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// StorageVersionMigrations describes the kind StorageVersionMigration.
//
//upstream:pkg/registry/storagemigration/storagemigration.strategy
//upstream:pkg/registry/storagemigration/storagemigration.statusStrategy
//upstream:pkg/apis/storagemigration/validation.ValidateStorageVersionMigration
//upstream:pkg/apis/storagemigration/validation.ValidateStorageVersionMigrationUpdate
//upstream:pkg/printers/internalversion.printStorageVersionMigration
func StorageVersionMigrations() kinds.Kind {
	return kinds.Of[*storagemigrationv1.StorageVersionMigration]{
		Type: &storagemigrationv1.StorageVersionMigration{}, List: &storagemigrationv1.StorageVersionMigrationList{},
		Plural: "storageversionmigrations", Cluster: true, NoUnconditionalUpdate: true,
		Name: fieldrules.NameIsSubdomain,
		Validate: func(m *storagemigrationv1.StorageVersionMigration) (errs field.ErrorList) {
			at, r := check.Object(&errs).Child("spec").Child("resource"), m.Spec.Resource
			if r.Resource == "" {
				at.Child("resource").Required("resource is required to be set")
			} else if messages := validation.IsDNS1035Label(r.Resource); len(messages) > 0 {
				at.Child("resource").Invalid(r.Resource, strings.Join(messages, ","))
			}
			if messages := validation.IsDNS1123Subdomain(r.Group); r.Group != "" && len(messages) > 0 {
				at.Child("group").Invalid(r.Group, strings.Join(messages, ","))
			}
			return errs
		},
		ValidateUpdate: func(m, old *storagemigrationv1.StorageVersionMigration) (errs field.ErrorList) {
			check.ImmutableStruct(check.Object(&errs).Child("spec"), m.Spec, old.Spec)
			return errs
		},
		Status:         true,
		PrepareStatus:  kinds.KeepMetadata[*storagemigrationv1.StorageVersionMigration],
		StatusReset:    []string{"metadata"},
		ValidateStatus: validateMigrationStatus,
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Name", "string", metav1.ObjectMeta{}.SwaggerDoc()["name"]),
			columns.Column("Resource", "string", "The resource of the objects to migrate."),
			columns.Column("Status", "string", "The last condition that is true."),
		},
		Row: func(m *storagemigrationv1.StorageVersionMigration) []any {
			return []any{m.Name, m.Spec.Resource.String(), migrationStatusCell(m)}
		},
		Bare: true,
	}
}

// migrationStatusCell returns the last condition that is true.
//
//upstream:pkg/printers/internalversion.printStorageVersionMigration
func migrationStatusCell(m *storagemigrationv1.StorageVersionMigration) string {
	status := "Unknown"
	for _, c := range m.Status.Conditions {
		switch t := storagemigrationv1.MigrationConditionType(c.Type); t {
		case storagemigrationv1.MigrationRunning, storagemigrationv1.MigrationFailed, storagemigrationv1.MigrationSucceeded:
			if c.Status == metav1.ConditionTrue {
				status = c.Type
			}
		}
	}
	return status
}

// validateMigrationStatus checks that a migration has at most one outcome, and keeps it.
//
//upstream:pkg/apis/storagemigration/validation.ValidateStorageVersionMigrationStatusUpdate
func validateMigrationStatus(m, old *storagemigrationv1.StorageVersionMigration) (errs field.ErrorList) {
	status := check.Object(&errs).Child("status")
	version, conditions := status.Child("resourceVersion"), status.Child("conditions")
	is, was := m.Status.ResourceVersion, old.Status.ResourceVersion
	if is != "" {
		if _, err := resourceversion.CompareResourceVersion(is, is); err != nil {
			version.Invalid(is, err.Error())
		}
	}
	conditions.Report(metav1validation.ValidateConditions(m.Status.Conditions, conditions.Path.Field())...)
	if was != "" {
		check.Immutable(version, is, was)
	}
	isTrue := func(list []metav1.Condition, t storagemigrationv1.MigrationConditionType) bool {
		return meta.IsStatusConditionTrue(list, string(t))
	}
	succeeded, failed := isTrue(m.Status.Conditions, storagemigrationv1.MigrationSucceeded), isTrue(m.Status.Conditions, storagemigrationv1.MigrationFailed)
	if succeeded && failed {
		conditions.Invalid(m.Status.Conditions, "Both success and failed conditions cannot be true at the same time")
	}
	if isTrue(old.Status.Conditions, storagemigrationv1.MigrationSucceeded) && !succeeded {
		conditions.Invalid(m.Status.Conditions, "Success condition cannot be set to false once it is true")
	}
	if isTrue(old.Status.Conditions, storagemigrationv1.MigrationFailed) && !failed {
		conditions.Invalid(m.Status.Conditions, "Failed condition cannot be set to false once it is true")
	}
	return errs
}
