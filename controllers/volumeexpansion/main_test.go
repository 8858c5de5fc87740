package volumeexpansion_test

import (
	"testing"

	"flyball.dev/controllers/controllerstest"
)

func TestMain(m *testing.M) { controllerstest.Main(m) }
