package scaffold

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"flyball.dev/cmd/flyball/internal/projectfile"
)

// EditOptions are the options of Edit. A nil option is left as it is.
type EditOptions struct {
	// MultiGroup is whether the project has the layout for several groups.
	MultiGroup *bool
}

// Edit changes the settings of the project in a folder.
func Edit(ctx context.Context, folder string, o EditOptions) (*Changes, error) {
	if o.MultiGroup == nil {
		return nil, errors.New("there is nothing to do: give --multigroup or --multigroup=false")
	}
	project, err := projectfile.Load(folder)
	if err != nil {
		return nil, err
	}
	if groups := project.Groups(); !*o.MultiGroup && len(groups) > 1 {
		return nil, fmt.Errorf("the project has several groups, %s: they need the layout for several", strings.Join(groups, ", "))
	}
	was := project.MultiGroup
	project.MultiGroup = *o.MultiGroup
	changes, err := apply(ctx, folder, project, KindOptions{}, func(*plan, data) error { return nil })
	if err == nil && was != project.MultiGroup && len(project.Resources) > 0 {
		where := "api/VERSION and internal/controller"
		if project.MultiGroup {
			where = "api/GROUP/VERSION and internal/controller/GROUP"
		}
		changes.note("Files of kinds that exist are not moved. New ones are written to %s.", where)
	}
	return changes, err
}
