package scaffold

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"flyball.dev/cmd/flyball/internal/projectfile"
)

// EditOptions are the options of Edit. A nil option leaves the setting unchanged.
type EditOptions struct {
	// MultiGroup selects the layout for several groups.
	MultiGroup *bool
	// Plugins are the plugins to run, by Kubebuilder's names: helm/v2-alpha makes a chart.
	Plugins []string
	// OutputDir is the parent folder of the chart's folder, by default dist.
	OutputDir string
	// Force regenerates the values of the chart.
	Force bool
}

// Edit changes the settings of the project in a folder, and runs plugins.
func Edit(ctx context.Context, folder string, o EditOptions) (*Changes, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.MultiGroup == nil && len(o.Plugins) == 0 {
		return nil, errors.New("there is nothing to do: give --multigroup, --multigroup=false or --plugins=" + helmPlugin)
	}
	project, err := projectfile.Load(folder)
	if err != nil {
		return nil, err
	}
	was := project.MultiGroup
	if o.MultiGroup != nil {
		if groups := project.Groups(); !*o.MultiGroup && len(groups) > 1 {
			return nil, fmt.Errorf("the project has several groups, %s: they need the layout for several", strings.Join(groups, ", "))
		}
		project.MultiGroup = *o.MultiGroup
	}
	var notes []string
	changes, err := apply(ctx, folder, project, KindOptions{}, func(p *plan, _ data) (err error) {
		if len(o.Plugins) > 0 {
			notes, err = renderChart(p, project, o)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	changes.Notes = append(changes.Notes, notes...)
	if was != project.MultiGroup && len(project.Resources) > 0 {
		where := "api/VERSION and internal/controller"
		if project.MultiGroup {
			where = "api/GROUP/VERSION and internal/controller/GROUP"
		}
		changes.note("Files of kinds that exist are not moved. New ones are written to %s.", where)
	}
	return changes, nil
}
