package batch

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

func TestSchedules(t *testing.T) {
	for s, want := range map[string]string{
		"* * * * *":              "",
		"*/5 0-6 1,15 jan-mar ?": "",
		"@daily":                 "",
		"@every 1h30m":           "",
		"0 0 * * sun":            "",
		"* * * *":                "expected exactly 5 fields, found 4: [* * * *]",
		"60 * * * *":             "end of range (60) above maximum (59): 60",
		"* * 0 * *":              "beginning of range (0) below minimum (1): 0",
		"5-1 * * * *":            "beginning of range (5) beyond end of range (1): 5-1",
		"*/0 * * * *":            "step of range should be a positive number: */0",
		"x * * * *":              `failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax`,
		"@never":                 "unrecognized descriptor: @never",
		"TZ=UTC * * * * *":       "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
		"TZ=0":                   "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
	} {
		got := ""
		for _, err := range validateCronJob(&batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: s}}, nil) {
			if err.Field == "spec.schedule" {
				got = err.Detail
			}
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}
