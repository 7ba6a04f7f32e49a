package workload

import (
	"math/rand/v2"
	"strconv"
)

// foodShape imitates the food composition documents that are a common example
// for document stores: a few scalars, tags, an array of nutrients, an array of
// servings. Property names and units repeat, amounts do not.
var foodShape = shape{
	name:      "food",
	keyPath:   "/foodGroup",
	about:     "nested documents of 0.8 to 2 KB, 1.4 KB in the mean",
	appendKey: appendFoodGroup,
	appendID: func(dst []byte, i int64) []byte {
		return appendHex(dst, scramble(uint64(i), 48), 12)
	},
	appendRest: appendFood,
}

// Sizes of a food document in bytes: nutrients are added until it has its
// target, drawn evenly; servings follow them.
const (
	foodTargetMin = 770
	foodTargetMax = 1720
)

func appendFood(dst []byte, partition int, rng rand.PCG) []byte {
	start := len(dst) - foodIDBytes
	dst = append(dst, `","foodGroup":"`...)
	dst = appendFoodGroup(dst, partition)
	dst = append(dst, `","manufacturer":"`...)
	dst = append(dst, pick(&rng, foodMakers)...)
	food := foods[below(&rng, len(foods))]
	form, state, extra := pick(&rng, foodForms), pick(&rng, foodStates), pick(&rng, foodExtras)
	dst = append(dst, `","upc":"`...)
	dst = appendDigits(dst, rng.Uint64()%1e12, 12)
	dst = append(dst, `","description":"`...)
	dst = append(append(append(append(dst, food.name...), ", "...), form...), ", "...)
	dst = append(append(append(append(dst, state...), ", "...), extra...), `","tags":["`...)
	for _, tag := range [...]string{food.tag, form, state} {
		dst = append(append(dst, tag...), `","`...)
	}
	dst = append(append(dst, extra...), `"],"price":`...)
	dst = appendFixed(dst, 49+below(&rng, 2500), 2)
	dst = append(dst, `,"kcal":`...)
	dst = appendFixed(dst, below(&rng, 900), 0)

	dst = append(dst, `,"nutrients":[`...)
	target := start + foodTargetMin + below(&rng, foodTargetMax-foodTargetMin)
	for n := below(&rng, 4); len(dst) < target; n++ {
		nutrient := &nutrients[n%len(nutrients)]
		dst = append(dst, nutrient.head...)
		bits := rng.Uint64()
		if bits>>60 == 0 { // one in sixteen is not contained
			dst = append(dst, '0')
		} else {
			dst = appendFixed(dst, int(bits&0xffffffff*uint64(nutrient.max)>>32), nutrient.decimals)
		}
		dst = append(dst, `},`...)
		n += int(bits >> 32 & 1)
	}
	dst = append(dst[:len(dst)-1], `],"servings":[`...)
	for range 1 + below(&rng, 3) {
		dst = append(dst, `{"amount":`...)
		dst = appendFixed(dst, 1+below(&rng, 4), 0)
		dst = append(append(dst, `,"description":"`...), pick(&rng, servings)...)
		dst = append(dst, `","weightInGrams":`...)
		dst = append(appendFixed(dst, 5+below(&rng, 400), 0), `},`...)
	}
	return append(dst[:len(dst)-1], `]}`...)
}

const foodIDBytes = len(idHead) + 12

// appendFoodGroup appends the name of a group; past the named ones they are
// numbered.
func appendFoodGroup(dst []byte, partition int) []byte {
	dst = append(dst, foodGroups[partition%len(foodGroups)]...)
	if n := partition / len(foodGroups); n > 0 {
		dst = strconv.AppendInt(append(dst, ' '), int64(n), 10)
	}
	return dst
}

func pick(rng *rand.PCG, words []string) string { return words[below(rng, len(words))] }

// nutrient is an element of the nutrients array: its text up to the value, and
// the values that it can have.
type nutrient struct {
	head          string
	max, decimals int // value < max / 10^decimals
}

func newNutrient(id int, name, unit string, max, decimals int) nutrient {
	return nutrient{
		head: `{"id":"` + strconv.Itoa(id) + `","name":"` + name + `","units":"` + unit + `","value":`,
		max:  max, decimals: decimals,
	}
}

var nutrients = []nutrient{
	newNutrient(203, "Protein", "g", 4000, 2),
	newNutrient(204, "Total lipid (fat)", "g", 6000, 2),
	newNutrient(205, "Carbohydrate, by difference", "g", 9000, 2),
	newNutrient(207, "Ash", "g", 600, 2),
	newNutrient(208, "Energy", "kcal", 900, 0),
	newNutrient(255, "Water", "g", 9800, 2),
	newNutrient(221, "Alcohol, ethyl", "g", 400, 1),
	newNutrient(262, "Caffeine", "mg", 90, 0),
	newNutrient(263, "Theobromine", "mg", 300, 0),
	newNutrient(269, "Sugars, total", "g", 8000, 2),
	newNutrient(291, "Fiber, total dietary", "g", 350, 1),
	newNutrient(301, "Calcium, Ca", "mg", 1200, 0),
	newNutrient(303, "Iron, Fe", "mg", 2500, 2),
	newNutrient(304, "Magnesium, Mg", "mg", 500, 0),
	newNutrient(305, "Phosphorus, P", "mg", 1100, 0),
	newNutrient(306, "Potassium, K", "mg", 1800, 0),
	newNutrient(307, "Sodium, Na", "mg", 2400, 0),
	newNutrient(309, "Zinc, Zn", "mg", 1500, 2),
	newNutrient(312, "Copper, Cu", "mg", 3000, 3),
	newNutrient(315, "Manganese, Mn", "mg", 5000, 3),
	newNutrient(317, "Selenium, Se", "µg", 900, 1),
	newNutrient(318, "Vitamin A, IU", "IU", 20000, 0),
	newNutrient(321, "Carotene, beta", "µg", 9000, 0),
	newNutrient(323, "Vitamin E (alpha-tocopherol)", "mg", 2000, 2),
	newNutrient(324, "Vitamin D", "IU", 800, 0),
	newNutrient(337, "Lycopene", "µg", 9000, 0),
	newNutrient(401, "Vitamin C, total ascorbic acid", "mg", 1200, 1),
	newNutrient(404, "Thiamin", "mg", 2000, 3),
	newNutrient(405, "Riboflavin", "mg", 2000, 3),
	newNutrient(406, "Niacin", "mg", 20000, 3),
	newNutrient(415, "Vitamin B-6", "mg", 1500, 3),
	newNutrient(417, "Folate, total", "µg", 600, 0),
	newNutrient(418, "Vitamin B-12", "µg", 1200, 2),
	newNutrient(421, "Choline, total", "mg", 2500, 1),
	newNutrient(430, "Vitamin K (phylloquinone)", "µg", 5000, 1),
	newNutrient(501, "Tryptophan", "g", 400, 3),
	newNutrient(502, "Threonine", "g", 1500, 3),
	newNutrient(503, "Isoleucine", "g", 1600, 3),
	newNutrient(504, "Leucine", "g", 2800, 3),
	newNutrient(505, "Lysine", "g", 2700, 3),
	newNutrient(506, "Methionine", "g", 900, 3),
	newNutrient(507, "Cystine", "g", 450, 3),
	newNutrient(508, "Phenylalanine", "g", 1500, 3),
	newNutrient(509, "Tyrosine", "g", 1200, 3),
	newNutrient(510, "Valine", "g", 1800, 3),
	newNutrient(511, "Arginine", "g", 2400, 3),
	newNutrient(512, "Histidine", "g", 1100, 3),
	newNutrient(513, "Alanine", "g", 2000, 3),
	newNutrient(514, "Aspartic acid", "g", 3300, 3),
	newNutrient(515, "Glutamic acid", "g", 6200, 3),
	newNutrient(516, "Glycine", "g", 2300, 3),
	newNutrient(517, "Proline", "g", 2500, 3),
	newNutrient(518, "Serine", "g", 1700, 3),
	newNutrient(601, "Cholesterol", "mg", 400, 0),
	newNutrient(606, "Fatty acids, total saturated", "g", 30000, 3),
	newNutrient(645, "Fatty acids, total monounsaturated", "g", 40000, 3),
	newNutrient(646, "Fatty acids, total polyunsaturated", "g", 30000, 3),
}

var foodGroups = []string{
	"Dairy and Egg Products", "Spices and Herbs", "Baby Foods", "Fats and Oils",
	"Poultry Products", "Soups, Sauces, and Gravies", "Sausages and Luncheon Meats",
	"Breakfast Cereals", "Fruits and Fruit Juices", "Pork Products",
	"Vegetables and Vegetable Products", "Nut and Seed Products", "Beef Products",
	"Beverages", "Finfish and Shellfish Products", "Legumes and Legume Products",
	"Lamb, Veal, and Game Products", "Baked Products", "Sweets",
	"Cereal Grains and Pasta", "Fast Foods", "Meals, Entrees, and Side Dishes",
	"Snacks", "Restaurant Foods",
}

var foodMakers = []string{
	"Alder Valley Foods", "Blue Heron Dairy", "Cartwright & Sons", "Delmare Provisions",
	"Eastgate Mills", "Fennimore Farms", "Golden Sheaf Bakery", "Harbour Catch",
	"Ironwood Kitchens", "Juniper Lane", "Kestrel Grocers", "Lowland Creamery",
	"Maple & Rye", "Northfield Growers", "Orchard Street", "Pinewood Pantry",
	"Quayside Fish Company", "Rowan Hill Organics", "Saltmarsh Trading", "Three Rivers Meat",
	"Umber Coffee", "Vineyard Table", "Westerly Grains", "Yarrow Tea House",
}

// foods lists kinds of food with the tag that goes with each.
var foods = []struct{ name, tag string }{
	{"Cheese", "cheese"}, {"Yogurt", "yogurt"}, {"Milk", "milk"}, {"Butter", "butter"},
	{"Bread", "bread"}, {"Cereals ready-to-eat", "cereals"}, {"Crackers", "crackers"},
	{"Cookies", "cookies"}, {"Cake", "cake"}, {"Candies", "candies"}, {"Ice creams", "ice creams"},
	{"Beef", "beef"}, {"Pork", "pork"}, {"Chicken", "chicken"}, {"Turkey", "turkey"}, {"Lamb", "lamb"},
	{"Fish", "fish"}, {"Shrimp", "shrimp"}, {"Sausage", "sausage"}, {"Egg", "egg"},
	{"Beans", "beans"}, {"Lentils", "lentils"}, {"Tofu", "tofu"}, {"Peanuts", "peanuts"}, {"Almonds", "almonds"},
	{"Apples", "apples"}, {"Pears", "pears"}, {"Peaches", "peaches"}, {"Plums", "plums"}, {"Cherries", "cherries"},
	{"Potatoes", "potatoes"}, {"Carrots", "carrots"}, {"Tomatoes", "tomatoes"}, {"Spinach", "spinach"},
	{"Cabbage", "cabbage"}, {"Onions", "onions"}, {"Pepper", "pepper"}, {"Rice", "rice"}, {"Pasta", "pasta"},
	{"Oats", "oats"}, {"Soup", "soup"}, {"Sauce", "sauce"}, {"Salad dressing", "dressing"}, {"Oil", "oil"},
	{"Coffee", "coffee"}, {"Tea", "tea"}, {"Fruit juice", "juice"}, {"Beverage", "beverage"},
}

var foodForms = []string{
	"whole", "sliced", "ground", "shredded", "diced", "strained", "powdered", "creamed",
	"lean only", "lean and fat", "boneless", "with skin", "without skin", "halves",
	"chunks", "concentrate", "instant", "fillet", "smoked", "cured",
}

var foodStates = []string{
	"raw", "cooked", "boiled", "roasted", "baked", "fried", "frozen", "canned",
	"dried", "dry roasted", "grilled", "steamed", "braised", "unprepared", "prepared", "stewed",
}

var foodExtras = []string{
	"with salt", "without salt", "unsweetened", "sweetened", "enriched", "unenriched",
	"low sodium", "low fat", "reduced fat", "fat free", "vitamin A fortified", "in syrup",
	"in water", "drained solids", "all grades", "choice", "organic", "family style",
	"commercially prepared", "from recipe", "plain", "with cheese", "with tomato sauce", "seasoned",
}

var servings = []string{
	"cup", "tbsp", "tsp", "oz", "slice", "piece", "package", "serving", "fl oz", "jar",
	"cup, chopped", "cup, sliced", "medium", "large", "small", "fillet", "link", "bar",
}
