package kinds

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/apiserver/kinds/columns"
)

// tables converts objects of one kind to tables.
//
//upstream:pkg/printers.HumanReadableGenerator
type tables struct{ kind *kind }

func (t tables) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{Rows: []metav1.TableRow{}}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		table.ColumnDefinitions = t.columns()
	}
	if list, err := meta.ListAccessor(obj); err == nil {
		table.ResourceVersion = list.GetResourceVersion()
		table.Continue = list.GetContinue()
		table.RemainingItemCount = list.GetRemainingItemCount()
	} else if one, err := meta.CommonAccessor(obj); err == nil {
		table.ResourceVersion = one.GetResourceVersion()
	}
	add := func(item runtime.Object) error {
		o, ok := item.(Object)
		if !ok || reflect.TypeOf(item) != reflect.TypeOf(t.kind.Type) {
			return fmt.Errorf("cannot print %T as a table of %s", item, t.kind.Plural)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: t.cells(o), Object: runtime.RawExtension{Object: o}})
		return nil
	}
	if meta.IsListType(obj) {
		return table, meta.EachListItem(obj, add)
	}
	return table, add(obj)
}

// columns returns the columns, with the age before the first one that only wide output has.
func (t tables) columns() []metav1.TableColumnDefinition {
	if t.kind.Bare {
		return t.kind.Columns
	}
	at := t.narrow()
	return slices.Concat([]metav1.TableColumnDefinition{columns.NameColumn}, t.kind.Columns[:at],
		[]metav1.TableColumnDefinition{columns.AgeColumn}, t.kind.Columns[at:])
}

func (t tables) cells(obj Object) []any {
	var cells []any
	if t.kind.Row != nil {
		if obj.GetName() == "" && t.kind.Default != nil { // a bookmark, which is empty
			obj = obj.DeepCopyObject().(Object)
			t.kind.Default(obj)
		}
		cells = t.kind.Row(obj)
	}
	if t.kind.Bare {
		return cells
	}
	at := t.narrow()
	return slices.Concat([]any{obj.GetName()}, cells[:at], []any{columns.Age(obj.GetCreationTimestamp())}, cells[at:])
}

func (t tables) narrow() int {
	for i, c := range t.kind.Columns {
		if c.Priority > 0 {
			return i
		}
	}
	return len(t.kind.Columns)
}

// JSONName returns the name of a field in JSON.
func JSONName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
