package scheduler_test

import (
	"testing"

	"flyball.dev/controlplane/controllerstest"
)

func TestMain(m *testing.M) { controllerstest.Main(m) }
