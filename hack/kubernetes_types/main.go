// Command kubernetes_types prints how Go reads and writes the types of Kubernetes that a registry-v1 bundle embeds:
// controller/formats/registry_v1/kubernetes_types.json.
//
// One structure a line: field names to "<flags><type>". Flags: "+" the API requires the field, "!" Go writes it even
// where it is empty (no omitempty), "*" it is a pointer, so that an empty value is written and null is not.
//
//	go mod tidy && go run . swagger.json > ../../controller/formats/registry_v1/kubernetes_types.json
//
// swagger.json is api/openapi-spec/swagger.json of the same release of k8s.io/kubernetes: what is required stands there.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"reflect"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var roots = []any{
	admissionregistrationv1.RuleWithOperations{}, appsv1.DeploymentSpec{}, rbacv1.PolicyRule{}, metav1.LabelSelector{},
	apiextensionsv1.CustomResourceDefinition{}, apiextensionsv1.JSONSchemaProps{}, corev1.EnvVar{},
	corev1.EnvFromSource{}, corev1.Volume{}, corev1.VolumeMount{}, corev1.Toleration{}, corev1.ResourceRequirements{},
	corev1.Affinity{},
}

// What has JSON of its own.
var scalars = map[string]string{
	"Quantity": "quantity", "IntOrString": "intOrString", "Time": "time", "MicroTime": "time", "JSON": "any",
	"FieldsV1": "any", "JSONSchemaPropsOrBool": "JSONSchemaPropsOrBool",
	"JSONSchemaPropsOrArray": "JSONSchemaPropsOrArray", "JSONSchemaPropsOrStringArray": "JSONSchemaPropsOrStringArray",
}

type definition struct {
	Required []string `json:"required"`
}

type writer struct {
	definitions map[string]definition
	types       map[string]map[string]string
}

func main() {
	w := writer{definitions: readDefinitions(os.Args[1]), types: map[string]map[string]string{}}
	for _, root := range roots {
		w.name(reflect.TypeOf(root))
	}
	lines := []string{}
	for name, fields := range w.types {
		line, err := json.Marshal(fields)
		if err != nil {
			log.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%q: %s", name, line))
	}
	slices.Sort(lines)
	fmt.Printf("{\n%s\n}\n", strings.Join(lines, ",\n"))
}

func readDefinitions(path string) map[string]definition {
	var document struct {
		Definitions map[string]definition `json:"definitions"`
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &document)
	}
	if err != nil {
		log.Fatal(err)
	}
	return document.Definitions
}

// name returns what a type is called in the table, and writes down the structures that it leads to.
func (w writer) name(t reflect.Type) string {
	if scalar, ok := scalars[t.Name()]; ok {
		return scalar
	}
	switch t.Kind() {
	case reflect.Pointer:
		return w.name(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + w.name(t.Elem())
	case reflect.Map:
		return "{}" + w.name(t.Elem())
	case reflect.Struct:
		if _, ok := w.types[t.Name()]; !ok {
			w.types[t.Name()] = map[string]string{}
			w.fields(t, w.types[t.Name()], w.required(t))
		}
		return t.Name()
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.String:
		return t.Kind().String()
	case reflect.Float64:
		return "float"
	}
	log.Fatalf("no name for %s", t)
	return ""
}

func (w writer) required(t reflect.Type) []string {
	name := strings.NewReplacer("k8s.io/", "io.k8s.", "/", ".").Replace(t.PkgPath()) + "." + t.Name()
	return w.definitions[name].Required
}

func (w writer) fields(t reflect.Type, into map[string]string, required []string) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		if slices.Contains(tag, "inline") || tag[0] == "" {
			w.fields(field.Type, into, required)
			continue
		}
		flags := ""
		if slices.Contains(required, tag[0]) {
			flags += "+"
		}
		// omitempty never leaves out a structure.
		omitsEmpty := slices.Contains(tag, "omitempty") && field.Type.Kind() != reflect.Struct
		if !omitsEmpty && !slices.Contains(tag, "omitzero") {
			flags += "!"
		}
		if field.Type.Kind() == reflect.Pointer {
			flags += "*"
		}
		into[tag[0]] = flags + w.name(field.Type)
	}
}
