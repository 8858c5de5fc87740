package stages_test

import (
	"testing"

	"flyball.dev/controlplane/controllerstest"
	_ "flyball.dev/internal/orphans"
)

func TestMain(m *testing.M) { controllerstest.Main(m) }
