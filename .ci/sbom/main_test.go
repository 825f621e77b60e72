package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"testing"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// TestTheBillListsWhatIsLinked makes the bill of this test itself, and reads it as others would.
func TestTheBillListsWhatIsLinked(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	var first, second bytes.Buffer
	if err := run(&first, "v1.0.0", program); err != nil {
		t.Fatal(err)
	}
	if err := run(&second, "v1.0.0", program); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("a second bill differs from the first (%v)", err)
	}
	bill := &spdx.Document{}
	if err := spdxjson.ReadInto(bytes.NewReader(first.Bytes()), bill); err != nil {
		t.Fatal(err)
	}
	if bill.CreationInfo.Created != "2023-11-14T22:13:20Z" {
		t.Errorf("created = %s", bill.CreationInfo.Created)
	}
	locators, ids := map[string]bool{}, map[string]bool{}
	for _, listed := range bill.Packages {
		locators[listed.PackageExternalReferences[0].Locator] = true
		ids[string(listed.PackageSPDXIdentifier)] = true
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Deps) == 0 || len(bill.Packages) != len(info.Deps)+2 || len(ids) != len(bill.Packages) {
		t.Errorf("%d packages of %d IDs are listed, of %d modules", len(bill.Packages), len(ids), len(info.Deps))
	}
	for _, module := range info.Deps {
		if !locators["pkg:golang/"+module.Path+"@"+module.Version] {
			t.Errorf("%s %s is not listed", module.Path, module.Version)
		}
	}
	if len(bill.Relationships) != len(bill.Packages) {
		t.Errorf("%d relationships between %d packages", len(bill.Relationships), len(bill.Packages))
	}
}

func TestSourceDate(t *testing.T) {
	if got, err := sourceDate("0"); err != nil || !got.Equal(time.Unix(0, 0)) {
		t.Errorf("sourceDate(0) = %s, %v", got, err)
	}
	if got, err := sourceDate(""); err != nil || time.Since(got) > time.Minute {
		t.Errorf("sourceDate() = %s, %v, want now", got, err)
	}
	if _, err := sourceDate("today"); err == nil {
		t.Error("today is taken for a number")
	}
}

func TestMistakes(t *testing.T) {
	for name, program := range map[string]string{"a file that is not there": "/nonexistent", "a file that is no program": "main.go"} {
		var out bytes.Buffer
		if err := run(&out, "v1", program); err == nil || out.Len() > 0 {
			t.Errorf("%s: %v, %q", name, err, out.String())
		}
	}
	if got, want := golang("a.example/b", "v1.0.0+incompatible"), "pkg:golang/a.example/b@v1.0.0%2Bincompatible"; got != want {
		t.Errorf("package URL %s, want %s", got, want)
	}
}
