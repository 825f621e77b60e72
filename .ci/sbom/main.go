// Command sbom writes the software bill of materials of a program that was built with Go, in SPDX 2.3 (ISO/IEC 5962) as JSON:
// the modules that the linker put in, as the program itself tells them, and no guesses about what else lies around.
//
//	sbom -version=v1.0.0 -output=warrantgate.spdx.json bin/warrantgate
//
// SOURCE_DATE_EPOCH, in seconds, is when the sources are from. With it, the same program gets the same bill.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// unsaid is SPDX's word for what a bill says nothing about.
const unsaid = "NOASSERTION"

func main() {
	version := flag.String("version", "", "version of the program")
	output := flag.String("output", "", "file to write")
	flag.Parse()
	if err := runTo(*output, *version, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func runTo(output, version, program string) error {
	var bill bytes.Buffer
	if err := run(&bill, version, program); err != nil {
		return err
	}
	return os.WriteFile(output, bill.Bytes(), 0o644)
}

func run(out io.Writer, version, program string) error {
	created, err := sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	return spdxjson.Write(newBill(info, path.Base(program), version, hex.EncodeToString(sum[:]), created), out, spdxjson.Indent("  "))
}

// sourceDate is the time that the variable SOURCE_DATE_EPOCH says, now where it is empty.
func sourceDate(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Now(), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0), nil
}

// newBill lists the program, Go's standard library, and every module that is linked.
func newBill(info *debug.BuildInfo, name, version, sum string, created time.Time) *spdx.Document {
	program := newPackage("program", name, version, golang(info.Main.Path, version))
	program.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
	program.PrimaryPackagePurpose, program.PackageLicenseDeclared = "APPLICATION", "Apache-2.0"
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	packages := []*spdx.Package{program, newPackage("stdlib", "stdlib", goVersion, golang("stdlib", goVersion))}
	for i, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		linked := newPackage(fmt.Sprintf("module-%d", i+1), module.Path, module.Version, golang(module.Path, module.Version))
		if module.Sum != "" {
			linked.PackageSourceInfo = "go.sum: " + module.Sum
		}
		packages = append(packages, linked)
	}
	relations := []*spdx.Relationship{relation("DOCUMENT", common.TypeRelationshipDescribe, program)}
	for _, linked := range packages[1:] {
		relations = append(relations, relation("program", common.TypeRelationshipDependsOn, linked))
	}
	return &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name,
		// It has to be unique, and need not lead anywhere (SPDX 2.3, 6.5).
		DocumentNamespace: "https://warrantgate.dev/spdx/" + name + "-" + sum,
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "warrantgate.dev/sbom"}}, Created: created.UTC().Format(time.RFC3339),
		},
		Packages: packages, Relationships: relations,
	}
}

func newPackage(id, name, version, url string) *spdx.Package {
	return &spdx.Package{
		PackageSPDXIdentifier: common.ElementID(id), PackageName: name, PackageVersion: version,
		PackageDownloadLocation: unsaid, PackageLicenseConcluded: unsaid, PackageLicenseDeclared: unsaid, PackageCopyrightText: unsaid,
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: url,
		}},
	}
}

// golang is the package URL of a module, by which scanners look it up.
func golang(module, version string) string {
	return "pkg:golang/" + module + "@" + url.QueryEscape(version)
}

func relation(from, how string, to *spdx.Package) *spdx.Relationship {
	return &spdx.Relationship{
		RefA: common.MakeDocElementID("", from), RefB: common.MakeDocElementID("", string(to.PackageSPDXIdentifier)), Relationship: how,
	}
}
